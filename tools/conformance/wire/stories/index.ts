/** The stories by the ids of their rows. */

import { AFFINITY_STORIES } from './affinity.ts'
import { FLOW_STORIES } from './flows.ts'
import { HEALTH_STORIES } from './health.ts'
import { INVALID_STORIES } from './invalid.ts'
import { LATE_STORIES } from './late.ts'
import { LOAD_STORIES } from './load.ts'
import { RESTART_STORIES } from './restarts.ts'
import { RULE_STORIES } from './rules.ts'
import type { Story } from './story.ts'

export const STORIES: Readonly<Record<string, Story>> = {
  ...AFFINITY_STORIES,
  ...FLOW_STORIES,
  ...HEALTH_STORIES,
  ...INVALID_STORIES,
  ...LATE_STORIES,
  ...LOAD_STORIES,
  ...RESTART_STORIES,
  ...RULE_STORIES,
}
