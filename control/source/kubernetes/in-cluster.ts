/** Whether this process runs in a pod of a cluster that it may ask. Kept apart, for asking costs no packages. */

import { existsSync } from 'node:fs'

/** Where the kubelet puts what a service account needs. */
export const SERVICE_ACCOUNT_FOLDER = '/var/run/secrets/kubernetes.io/serviceaccount'

/** The kubelet has named the API server, and given a token for it. */
export function isInCluster(env: NodeJS.ProcessEnv = process.env, root = ''): boolean {
  return Boolean(env['KUBERNETES_SERVICE_HOST']) && existsSync(`${root}${SERVICE_ACCOUNT_FOLDER}/token`)
}
