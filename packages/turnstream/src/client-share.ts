export * from '@turnstream/client/share'
