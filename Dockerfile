# Gateway image. Build: docker build -t turnstream . (docs/deployment.md explains how to run it)

FROM node:24-slim AS build
WORKDIR /app
COPY package.json package-lock.json tsconfig.json ./
COPY scripts ./scripts
COPY packages ./packages
COPY web ./web
# No dependency needs its install script: native parts are prebuilt for glibc.
RUN npm ci --ignore-scripts --no-audit --no-fund && node scripts/build.mjs
RUN npm ci --omit=dev --ignore-scripts --no-audit --no-fund && rm -rf packages/*/src

FROM node:24-slim
ENV NODE_ENV=production
WORKDIR /app
# The packages are linked into node_modules.
COPY --from=build /app/node_modules ./node_modules
COPY --from=build /app/packages ./packages

# Turns are stored in /data/.turnstream, and /data/turnstream.config.json is read.
RUN install -d -o node -g node -m 700 /data
WORKDIR /data
VOLUME /data
USER node

# Reachable from other machines, so it requires keys: without TURNSTREAM_KEYS_FILE it prints what to do and exits.
ENV TURNSTREAM_HOST=0.0.0.0
EXPOSE 4010
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 \
  CMD ["node", "-e", "fetch('http://127.0.0.1:4010/healthz').then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]

# Running turns have 30 s to end. `docker stop` waits only 10 s by default: pass --timeout 45.
STOPSIGNAL SIGTERM
ENTRYPOINT ["node", "/app/packages/turnstream/dist/cli/main.js"]
CMD ["serve"]
