export * from '@turnstream/conformance'
