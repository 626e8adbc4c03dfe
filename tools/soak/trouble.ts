/** What can go wrong between a client and its API server, a row each. */

import {
  type Answer,
  type AnswerScope,
  type ApiServer,
  createAuthority,
  RESOURCES,
  type Resource,
  type Watch,
} from '../apiserver/index.ts'
import type { Random } from './random.ts'

/** Makes it happen; the result makes it good again, where that is not up to the client. */
export type Trouble = (server: ApiServer, random: Random) => (() => void | Promise<void>) | undefined

/** Of one kind, or of all of them. */
function someWatches(server: ApiServer, random: Random): Watch[] {
  return server.watches(random.chance(50) ? random.pick(RESOURCES) : undefined)
}

function scope(random: Random): AnswerScope {
  const resource: Resource = random.pick(RESOURCES)
  return { ...(random.chance(50) ? { resource } : {}), times: random.between(1, 6) }
}

/** For so many requests, which begin at once: the watches end. */
function answering(make: (random: Random) => Answer): Trouble {
  return (server, random) => {
    const bad = server.answer(make(random), scope(random))
    for (const watch of someWatches(server, random)) watch.end()
    return () => bad[Symbol.dispose]()
  }
}

const status = (code: number, reason: string, retryAfterSeconds?: number): Answer => ({
  status: {
    code,
    reason,
    message: reason,
    ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
  },
})

/** The server's own state, out of a backup of long ago or marked as far ahead, as etcd's manual has it. */
function restoring(step: number): Trouble {
  return (server) => {
    const { objects } = server
    const kept = RESOURCES.flatMap((resource) => objects.list(resource)).filter((_, i) => i % 5 !== 0)
    const down = server.down()
    objects.restore(kept, objects.revision + step)
    return async () => {
      await down
      await server.up()
    }
  }
}

export const TROUBLES: Readonly<Record<string, Trouble>> = {
  'watches end': (server, random) => {
    for (const watch of someWatches(server, random)) watch.end()
    return undefined
  },
  'connections are reset': (server) => {
    server.resetConnections()
    return undefined
  },
  'a frame is cut': (server, random) => {
    for (const watch of someWatches(server, random)) {
      watch.cutIn(
        watch.encoding === 'json'
          ? Buffer.from('{"type":"MODIFIED","object":{"meta')
          : Buffer.from([0, 0, 1, 0, 10, 5]),
      )
    }
    return undefined
  },
  'one kind is late': (server, random) => {
    const late = server.watches(random.pick(RESOURCES))
    for (const watch of late) watch.stall()
    return () => {
      for (const watch of late) watch.resume()
    }
  },
  'watches go silent for ever': (server, random) => {
    for (const watch of someWatches(server, random)) watch.stall()
    return undefined
  },
  'history is forgotten': (server, random) => {
    server.behaviour.expiry = random.pick(['status', 'event'])
    server.objects.compact()
    for (const watch of someWatches(server, random)) watch.end()
    return undefined
  },
  '410 at once': answering(() => status(410, 'Expired')),
  '429 with Retry-After': answering(() => status(429, 'TooManyRequests', 1)),
  '503 with Retry-After': answering(() => status(503, 'ServiceUnavailable', 1)),
  '500': answering(() => status(500, 'InternalError')),
  'another page': answering(() => ({
    code: 200,
    contentType: 'text/html',
    text: '<html>Please log in</html>',
  })),
  'half an answer': answering(() => 'half'),
  'a head without a body': answering(() => 'head'),
  'no answer': answering(() => 'silence'),
  'a reset': answering(() => 'reset'),
  'a late answer': answering((random) => ({ delayMs: random.between(1, 300) })),
  'errors inside watches': (server, random) => {
    for (const watch of someWatches(server, random)) {
      watch.sendStatus({ code: random.pick([410, 500, 504]), reason: 'InternalError', message: 'trouble' })
      watch.end()
    }
    return undefined
  },
  'the token is refused': (server) => {
    const { tokens } = server.behaviour
    server.behaviour.tokens = new Set()
    for (const watch of server.watches()) watch.end()
    return () => {
      server.behaviour.tokens = tokens
    }
  },
  'nothing may be read': (server, random) => {
    const resource = random.pick(RESOURCES)
    server.behaviour.forbidden.add(resource)
    for (const watch of server.watches(resource)) watch.end()
    return () => {
      server.behaviour.forbidden.delete(resource)
    }
  },
  'answers are slow': (server, random) => {
    server.behaviour.pace = { chunkBytes: random.between(1, 4000), pauseMs: random.between(0, 3) }
    return () => {
      server.behaviour.pace = undefined
    }
  },
  'an object is garbage': (server, random) => {
    const resource = random.pick(RESOURCES)
    const objects = server.objects.list(resource)
    const { metadata } = objects.length === 0 ? { metadata: undefined } : random.pick(objects)
    if (metadata === undefined) return undefined
    const key = metadata.namespace === undefined ? metadata.name : `${metadata.namespace}/${metadata.name}`
    const garbage = server.encoder.garble(resource, key, random.pick(['fields', 'everything']))
    const spoilt = server.objects.get(resource, key)
    if (spoilt !== undefined) server.objects.put(spoilt)
    return () => garbage[Symbol.dispose]()
  },
  'no protobuf': (server) => {
    server.behaviour.protobuf = false
    for (const watch of server.watches()) watch.end()
    return () => {
      server.behaviour.protobuf = true
    }
  },
  'no streaming lists': (server, random) => {
    server.behaviour.streamingLists = random.pick(['invalid', 'ignored'])
    return () => {
      server.behaviour.streamingLists = 'served'
    }
  },
  'no selection by ClusterIP': (server) => {
    server.behaviour.selectsClusterIP = false
    return () => {
      server.behaviour.selectsClusterIP = true
    }
  },
  'no ServiceCIDRs': (server) => {
    server.behaviour.absent.add('servicecidrs')
    for (const watch of server.watches('servicecidrs')) watch.end()
    return () => {
      server.behaviour.absent.delete('servicecidrs')
    }
  },
  'nobody listens': (server) => {
    const down = server.down()
    return async () => {
      await down
      await server.up()
    }
  },
  'another certificate': (server) => {
    server.useIdentity(server.identity(createAuthority('another')))
    server.resetConnections()
    return () => server.useIdentity(server.identity(server.authority))
  },
  'a backup is restored': restoring(-10_000_000),
  'a backup is restored, with the count far ahead': restoring(1_000_000),
}
