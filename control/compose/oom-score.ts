/** How soon the kernel ends this process when memory runs out, as kube-proxy has it. */

import { writeFileSync } from 'node:fs'
import type { Logger } from '../log.ts'

/** To lower it takes the capability SYS_RESOURCE. What cannot be set is told: the kubelet has given the pod a value, too. */
export function setOomScore(
  score: number | undefined,
  log: Pick<Logger, 'info'>,
  file = '/proc/self/oom_score_adj',
): void {
  if (score === undefined) return
  try {
    writeFileSync(file, String(score))
  } catch (error) {
    log.info(`oomScoreAdj stays as it is: to set it to ${score} takes the capability SYS_RESOURCE`, {
      err: error,
    })
  }
}
