'use client'

export * from '@turnstream/client/react'
