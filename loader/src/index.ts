/** libbpf for TypeScript; see the README beside this folder. */
export {
  type Btf,
  type BtfComposite,
  type BtfEnum,
  type BtfInt,
  type BtfMember,
  type BtfSection,
  type BtfType,
  btfType,
  parseBtf,
  resolveType,
} from './btf.ts'
export {
  ALL_PROTOCOLS,
  attachClsact,
  type ClsactFilter,
  type ClsactPlace,
  clsactDevices,
  detachClsact,
  ensureClsactQdisc,
  queryClsact,
  removeClsactQdisc,
} from './clsact.ts'
export { type Codec, u32, u64 } from './codec.ts'
export { type ElfFile, type ElfSection, type ElfSymbol, parseElf } from './elf.ts'
export {
  BatchError,
  BpfError,
  IncompatibleMapError,
  LibraryError,
  type MapDifference,
  NetlinkError,
  SpecError,
  VerifierError,
} from './errors.ts'
export { type Kernel, kernel } from './kernel.ts'
export { createMap, openPinnedMap, possibleCpus } from './kernel-map.ts'
export { loadObject } from './kernel-object.ts'
export { openPinnedProgram } from './kernel-program.ts'
export {
  attachCgroup,
  attachTcx,
  attachXdp,
  BpfLink,
  type LinkInfo,
  openPinnedLink,
  queryCgroup,
  queryTcx,
} from './link.ts'
export { BpfMap, type MapChunk, type MapDefinition } from './map.ts'
export { type MemoryLock, raiseMemoryLock } from './memory-lock.ts'
export {
  EXCHANGE_LIMIT,
  type NetlinkFamily,
  type NetlinkRequest,
  NetlinkSocket,
  openNetlink,
} from './netlink.ts'
export {
  encodeAttributes,
  listAttributes,
  NETLINK_FLAGS,
  type NetlinkMessage,
  parseAttributes,
} from './netlink-message.ts'
export { inNetworkNamespace, inNewNetworkNamespace } from './netns.ts'
export { BpfObject, type ConstantValue, type LoadOptions } from './object.ts'
export { openPacketSocket, PacketSocket, type PacketSocketOptions } from './packet-socket.ts'
export type { Pins } from './pins.ts'
export {
  type ProbeAnswer,
  probeBatch,
  probeBpfSyscall,
  probeHelper,
  probeJit,
  probeKernelConstant,
  probeKernelFunction,
  probeKernelTypes,
  probeMapType,
  probeProgramType,
} from './probe.ts'
export { probeCgroupHook, probeClsact, probeLinks, probeTcx } from './probe-hooks.ts'
export {
  capabilityNames,
  effectiveCapabilities,
  type Mount,
  mountsOfType,
  netnsCookie,
} from './process.ts'
export { BpfProgram, type TestRunOptions, type TestRunResult } from './program.ts'
export { kernelRelease } from './release.ts'
export { RingReader } from './ring.ts'
export { type GlobalSpec, type MapSpec, type ObjectSpec, type ProgramSpec, readSpec } from './spec.ts'
export { type TypedMap, typedMap } from './typed-map.ts'
export {
  type CgroupHook,
  type Direction,
  type HelperName,
  type LinkType,
  MAP_FLAGS,
  type MapType,
  mapTypeName,
  type ProgramType,
  type UpdateMode,
  type XdpMode,
} from './uapi.ts'
