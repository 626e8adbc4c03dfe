/** Where the compiled programs are: in `build/`, beside the bundle of this program. */

import { join } from 'node:path'

const BUILD = import.meta.filename.endsWith('.ts')
  ? join(import.meta.dirname, '../../build')
  : import.meta.dirname

/** The programs of IPv4. */
export const DATAPATH_OBJECT = join(BUILD, 'datapath4.bpf.o')
