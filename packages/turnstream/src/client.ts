export * from '@turnstream/client'
