/** What demo, tests and bench use of the little cluster. */

export type {
  Answer,
  Answered,
  Failed,
  LoadInput,
  LoadReport,
  OpenInput,
  Protocol,
  Reply,
  RequestInput,
  SocketAddress,
} from './agent-protocol.ts'
export { backendsOf, formatSocketAddress, parseSocketAddress, tally } from './agent-protocol.ts'
export type { ClusterOptions } from './cluster.ts'
export { Cluster, createCluster } from './cluster.ts'
export type { ContainerLimits, Mount } from './container.ts'
export { inDebuggingPod, prepareContainers } from './container.ts'
export { Daemon, MAP_SIZES, SLUICE } from './daemon.ts'
export { prepareForRules } from './for-rules.ts'
export type { ExecOptions, ExecResult } from './member.ts'
export { ConnectionGroup, Member, NodeMember, RunningLoad } from './member.ts'
export { patience } from './patience.ts'
export { replaceFile } from './replace-file.ts'
export { hostDevice } from './script.ts'
export type { SourceKind, StageOptions } from './stage.ts'
export { Stage, setStage } from './stage.ts'
export { compileStranger, startStrangers } from './strangers.ts'
export type { Family, MemberName, NodeName, NodeSettings, PodName } from './topology.ts'
export {
  CLIENT,
  CLUSTER_CIDR,
  CLUSTER_CIDR6,
  FAMILIES,
  facesOf,
  NODE_NAMES,
  NODES,
  POD_NAMES,
  POD_PORTS,
  PODS,
} from './topology.ts'
export { until } from './until.ts'
export type { BpfRefusal } from './without-bpf.ts'
export { compileWithoutBpf } from './without-bpf.ts'
