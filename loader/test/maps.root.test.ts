/** The kernel keeps the contract; see `contract.ts`. */
import { kernel } from '../src/index.ts'
import { contract } from './contract.ts'
import { checkDescriptors, pinFolder, rootOnly } from './kit.ts'

contract({ kernel, options: rootOnly, pinFolder, checkDescriptors })
