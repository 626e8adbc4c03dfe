/**
 * Loaded into the daemon before its own program (`node --import`): looks at the event loop and at what arrives, and writes
 * that to the file that SLUICE_BENCH_OBSERVED names, now and then. The daemon knows nothing of it.
 */
import { subscribe } from 'node:diagnostics_channel'
import { renameSync, writeFileSync } from 'node:fs'
import { microseconds } from '../source-changes.ts'
import type { Block, Observed } from './protocol.ts'

const TICK_MS = 2
const LONG_MS = 10
const WRITE_INTERVAL_MS = 500
const ARRIVALS_MAX = 20_000

function observe(file: string): void {
  const startedUs = microseconds() - Math.round(process.uptime() * 1e6)
  const blocks: Block[] = []
  const arrivedUs: number[] = []
  subscribe('undici:request:bodyChunkReceived', () => {
    if (arrivedUs.length < ARRIVALS_MAX) arrivedUs.push(microseconds())
  })
  let before = microseconds()
  let cpuBefore = process.threadCpuUsage()
  const tick = (): void => {
    const now = microseconds()
    const ms = (now - before) / 1000 - TICK_MS
    const cpu = process.threadCpuUsage(cpuBefore)
    if (ms >= LONG_MS) blocks.push({ atUs: now, ms, cpuMs: (cpu.user + cpu.system) / 1000 })
    before = now
    cpuBefore = process.threadCpuUsage()
    setTimeout(tick, TICK_MS).unref()
  }
  tick()
  setInterval(() => {
    const observed: Observed = { startedUs, arrivedUs, blocks }
    writeFileSync(`${file}.new`, JSON.stringify(observed))
    renameSync(`${file}.new`, file)
  }, WRITE_INTERVAL_MS).unref()
}

const file = process.env['SLUICE_BENCH_OBSERVED']
if (file !== undefined) observe(file)
