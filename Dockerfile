# The gateway as an image: docker build -t turnstream . (docs/deployment.md tells how to run it)

FROM node:24-slim AS build
WORKDIR /app
COPY package.json package-lock.json ./
# Nothing that is installed has to run a script of its own: native parts come ready for glibc.
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY tsconfig.json tsconfig.build.json ./
COPY scripts ./scripts
COPY src ./src
RUN node scripts/build.mjs

FROM node:24-slim
ENV NODE_ENV=production
WORKDIR /app
COPY package.json package-lock.json ./
RUN npm ci --omit=dev --ignore-scripts --no-audit --no-fund && npm cache clean --force
COPY --from=build /app/dist ./dist

# Turns are kept in .turnstream of the directory in which it starts, and turnstream.config.json is read there.
RUN install -d -o node -g node -m 700 /data
WORKDIR /data
VOLUME /data
USER node

# Others can reach it here, so it asks for keys: without TURNSTREAM_KEYS_FILE it says what to do, and ends.
ENV TURNSTREAM_HOST=0.0.0.0
EXPOSE 4010
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 \
  CMD ["node", "-e", "fetch('http://127.0.0.1:4010/healthz').then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]

# Running turns then have 30 s to end: give `docker stop` a --timeout of 45, since its own is 10.
STOPSIGNAL SIGTERM
ENTRYPOINT ["node", "/app/dist/cli/main.js"]
CMD ["serve"]
