/** Where the compiled programs are: in `build/`, beside the bundle of this program. */

import { join } from 'node:path'

/** The folder of the objects. */
export const OBJECT_FOLDER = import.meta.filename.endsWith('.ts')
  ? join(import.meta.dirname, '../../build')
  : import.meta.dirname
