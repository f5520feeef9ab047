#!/usr/bin/env node
process.stdout.write('turnstream\n')
