// SPDX-License-Identifier: Apache-2.0
// Made by tools/types.mjs from schemas/: do not edit.

/** x, y, z */
export type Dim3 = number[];

/** What went wrong, why, and one thing to try. */
export interface Error {
  code: string;
  what: string;
  hint?: string;
  /** the driver's or system's own number */
  vendor?: number;
}

/** Where a session stands. */
export type SessionState = 'opened' | 'source_selected' | 'captured' | 'running' | 'idle' | 'saved' | 'closed';

/** What was selected of a dispatch list. */
export interface Selection {
  kernel?: string;
  pattern?: string;
  nth?: number;
  grid?: Dim3;
}

export interface SelectedSource {
  file?: string;
  options?: Options;
}

/** A laboratory's life from open to close. */
export interface Session {
  id: string;
  name: string;
  /** cli, mcp or page */
  made_by: string;
  state: SessionState;
  program: string[];
  working_folder: string;
  roots: string[];
  dispatch: Selection | null;
  /** path of the capture, empty before one */
  bundle: string;
  max_runs: number;
  runs: number;
  made_at: string;
  closed_at?: string;
  source?: SelectedSource;
  /** while running: where it came from */
  rest?: SessionState;
}

export interface NextAction {
  verb: string;
  why: string;
}

export type JobState = 'queued' | 'running' | 'done' | 'failed' | 'cancelled' | 'lost';

export interface JobRow {
  id: number;
  session: string;
  kind: string;
  state: JobState;
  log: string;
  result?: unknown;
  made_at: string;
  ended_at?: string;
}

export interface Progress {
  line: string;
  done: number;
  /** 0: not known */
  total: number;
  /** place in the queue of the device */
  place?: number;
}

/** A job that waits or works now. */
export interface ActiveJob {
  job: number;
  verb: string;
  session: string;
  progress: Progress;
}

export interface EventRow {
  id: number;
  session: string;
  kind: string;
  at: string;
  detail: EventDetail;
}

/** Members depend on the kind. */
export interface EventDetail {
  by?: string;
  job?: number;
  kind?: string;
  state?: JobState;
  request?: Record<string, unknown>;
  error?: Error;
  variant?: string;
  name?: string;
  run?: number;
  comparison?: number;
  median_ns?: number;
  correctness?: Correctness;
  speed?: Speed;
  ratio?: number;
  file?: string;
  save?: string;
  approved_by?: string;
  bundle?: string;
  kernel?: string;
  captured_bytes?: number;
  proof?: string;
  dispatches?: number;
  candidates?: number;
  bytes?: number;
  dispatch?: Selection;
  given?: boolean;
}

export interface Device {
  api: string;
  name: string;
  driver: string;
  driver_version: string;
  api_version: string;
  uuid: string;
  type: string;
  vendor_id: number;
  device_id: number;
  arch?: string;
}

export interface Abilities {
  fixed_addresses?: boolean;
  fixed_addresses_by?: string;
  device_addresses?: boolean;
  counters?: boolean;
  memory_pools?: boolean;
  clock_readout?: boolean;
  matrix_units?: boolean;
  subgroup_size_control?: boolean;
  executable_statistics?: boolean;
  timestamps?: boolean;
  compute_units?: number;
  subgroup_size?: number;
  min_subgroup_size?: number;
  max_subgroup_size?: number;
  max_allocation?: number;
  last_level_cache?: number;
  max_grid?: Dim3;
  max_block_threads?: number;
  max_shared_bytes?: number;
}

/** A device, or an API that cannot be used here and why. */
export interface DeviceEntry {
  api: string;
  index?: number;
  identity?: Device;
  abilities?: Abilities;
  problem?: unknown;
  error?: Error;
}

/** How a variant is compiled. */
export interface Options {
  include_folders: string[];
  defines: string[];
  optimisation: string;
  target: string;
  entry_point: string;
  debug_info: boolean;
  arch?: string;
  compiler?: string;
  standard?: string;
  kernel?: string;
  fast_math?: boolean;
  line_info?: boolean;
  max_registers?: number;
  extra?: string[];
  project?: string[];
}

export interface LaunchOverride {
  grid?: Dim3;
  block?: Dim3;
  cluster?: Dim3;
  attributes?: unknown[];
  subgroup_size?: number;
  dynamic_shared_bytes?: number;
  entry_point?: string;
  spec_constants?: Record<string, unknown>;
  push_constants?: Record<string, unknown>;
}

/** Source or binary, build options, launch. Variant 0, the baseline, is what was captured and has no row. */
export interface Variant {
  id: string;
  name: string;
  language: string;
  source_file: string;
  source_hash: string;
  options: Options;
  launch: LaunchOverride;
  code: string;
  code_hash: string;
  compiler: string;
  /** what save would rewrite */
  target_file: string;
  made_at: string;
  verdict?: Verdict;
}

export type Correctness = 'correct' | 'incorrect' | 'not_verified' | 'failed';

export type Speed = 'none' | 'identical' | 'faster' | 'slower' | 'equivalent' | 'inconclusive' | 'unstable' | 'clock_dependent';

export type Mode = 'isolated' | 'sustained' | 'repeats';

export type CacheState = 'cold' | 'warm' | 'rotating';

export type Outcome = 'ok' | 'compile_failed' | 'missing_symbol' | 'launch_failed' | 'device_fault' | 'timeout' | 'out_of_memory' | 'worker_lost' | 'refused' | 'failed';

export interface Conditions {
  mode: Mode;
  iterations: number;
  cache: CacheState;
  flush_mb: number;
  repeats?: number;
  memory?: string;
}

/** A comparison as the list of a session has it. */
export interface Verdict {
  id: number;
  variant: string;
  dispatch: number;
  correctness: Correctness;
  speed: Speed;
  reason: string;
  at: string;
  /** B's time over A's */
  ratio?: number;
  conditions?: Conditions;
  /** reference, left out: baseline */
  against?: string;
}

/** Against the previous run under the same conditions. */
export interface Delta {
  run: number;
  variant: string;
  at: string;
  ratio: number;
}

/** A run as the list of a session has it. */
export interface RunRow {
  run: number;
  dispatch: number;
  variant: string;
  device: string;
  conditions: Conditions;
  outcome: Outcome;
  at: string;
  median_ns?: number;
  delta?: Delta;
  correctness?: Correctness;
  answer?: WorkerAnswer;
}

/** Of the times of one side. */
export interface Summary {
  count: number;
  median_ns: number;
  q1_ns: number;
  q3_ns: number;
  min_ns: number;
  max_ns: number;
  mean_ns: number;
  spread: number;
}

/** What the driver says of the code. */
export interface Resources {
  vector_registers?: number;
  scalar_registers?: number;
  spilled_registers?: number;
  scratch_bytes?: number;
  shared_bytes?: number;
  code_bytes?: number;
  subgroup_size?: number;
  occupancy?: number;
  driver?: unknown[];
  isa?: string;
}

export interface ReflectedField {
  offset: number;
  type: string;
  count: number;
  name?: string;
}

export interface ReflectedBinding {
  set: number;
  binding: number;
  count: number;
  type: string;
  name: string;
  size_bytes: number;
  read_only: boolean;
  write_only: boolean;
  fields?: ReflectedField[];
  element_offset?: number;
  element_stride?: number;
  element_fields?: ReflectedField[];
}

export interface ReflectedSpec {
  id: number;
  name: string;
  type: string;
  default_value: unknown;
}

/** Facts of SPIR-V. */
export interface Reflection {
  version: string;
  entry_points: string[];
  block: Dim3;
  block_from_spec: boolean;
  bindings: ReflectedBinding[];
  spec_constants: ReflectedSpec[];
  push_constant_bytes: number;
  shared_bytes: number;
  instructions: number;
  matrix_instructions: number;
  atomic_instructions: number;
  barrier_instructions: number;
  float_atomics: number;
  capabilities: string[];
  source_files: string[];
  source_text?: string;
  source_language: string;
  uses_physical_addresses: boolean;
}

export interface InstructionMix {
  total: number;
  opcodes?: Record<string, number>;
  matrix?: Record<string, number>;
  groups?: Record<string, number>;
  matrix_total: number;
}

/** Facts of a CUDA or HIP kernel. */
export interface KernelFacts {
  name: string;
  demangled: string;
  local_bytes: number;
  shared_bytes: number;
  constant_bytes: number;
  code_bytes: number;
  code_hash: string;
  barriers: number;
  parameter_bytes: number;
  max_block?: unknown;
  required_block?: unknown;
  cluster?: unknown;
  cooperative: boolean;
  registers?: number;
  scalar_registers?: number;
  accumulation_registers?: number;
  vector_spills?: number;
  scalar_spills?: number;
  wavefront_size?: number;
  max_registers?: number;
  min_stack_bytes?: number;
  spill_store_bytes?: number;
  spill_load_bytes?: number;
  parameters?: unknown[];
  instructions?: InstructionMix;
}

export interface Occupancy {
  blocks: number;
  warps: number;
  max_warps: number;
  fraction: number;
  limited_by: unknown;
}

/** A build's figures beside those of the captured kernel. */
export interface CudaReport {
  arch: string;
  notes: string[];
  kernel?: KernelFacts;
  baseline?: KernelFacts;
  occupancy?: Occupancy;
  baseline_occupancy?: Occupancy;
  compile_commands?: string;
}

/** Of a compiler. */
export interface Message {
  severity: 'error' | 'warning' | 'note';
  file: string;
  line: number;
  text: string;
  column?: number;
}

export interface Built {
  variant: Variant;
  same_code: boolean;
  existed: boolean;
  messages: Message[];
  compiler: string;
  cached: boolean;
  compile_ms: number;
  log: string;
  cuda?: CudaReport;
  module?: Record<string, unknown>;
  reflection?: Reflection;
  job?: number;
  session?: Session;
  next_actions?: NextAction[];
}

export interface RunResources {
  driver: Resources;
  /** Reflection or KernelFacts */
  code: unknown;
}

export interface ValueStats {
  elements: number;
  different: number;
  beyond_tolerance: number;
  nan_mismatch: number;
  infinity_mismatch: number;
  max_absolute: number;
  max_relative: number | null;
  max_ulp: number;
  ulps: Record<string, number>;
}

/** Share of wrong elements in each cell of a region, in thousandths, never 0 when one is wrong. */
export interface ValueMap {
  rows: number;
  columns: number;
  height: number;
  width: number;
  shares: number[];
}

/** Of one region. */
export interface Difference {
  region: number;
  name: string;
  differing_bytes: number;
  first_offset: number;
  expected: string;
  actual: string;
  wrong: number;
  type?: string;
  index?: string;
  expected_value?: string;
  actual_value?: string;
  values?: ValueStats;
  map?: ValueMap;
}

export interface InputTried {
  kind: string;
  what: string;
  result: string;
  agrees: boolean;
}

export interface RegionType {
  region: number;
  type: string;
  from: string;
  name?: string;
  shape?: unknown;
}

export interface Validation {
  correctness: Correctness;
  reason: string;
  level: string;
  checked_bytes: number;
  differing_bytes: number;
  masked_bytes: number;
  launches_checked: number;
  differences: Difference[];
  /** what the check was shown and had to find */
  oracle: Record<string, boolean>;
  inputs_tried: number;
  seed: number;
  guarded_bytes: number;
  inputs: InputTried[];
  types?: RegionType[];
  tolerances?: unknown;
  values?: ValueStats;
}

export interface Throughput {
  per_s: number;
  launches: number;
  host_us?: number;
}

export interface CounterValue {
  value: number | null;
  unit?: string;
  why?: string;
}

/** What the worker said of one variant. */
export interface VariantAnswer {
  label: string;
  outcome: Outcome;
  samples_ns: number[];
  restored_bytes_per_iteration: number;
  written_bytes: number;
  resources: Resources;
  code_hash: string;
  validation: Validation;
  replay_averages_ns?: number[];
  error?: Error;
  counters?: unknown;
  throughput?: Throughput;
}

export interface WorkerAnswer {
  protocol?: number;
  outcome: Outcome;
  device: Device;
  asked: Conditions;
  ran: Conditions;
  notes: string[];
  address_mode: string;
  address_by: string;
  rewritten_words: number;
  captured_bytes: number;
  variants: VariantAnswer[];
  wall_ms: number;
  error?: Error;
  proof?: Proof;
  comparison?: Comparison;
}

export interface RunWork {
  source: string;
  flops?: Record<string, number>;
  matrix?: boolean;
  bytes_read?: number;
  bytes_written?: number;
}

/** A run under the roofs of its device; only `why` when it could not be placed. */
export interface Roofline {
  why?: string;
  impossible?: boolean;
  achieved_gbs?: number;
  achieved_gflops?: number;
  intensity?: number;
  memory_roof_gbs?: number;
  compute_roof_gflops?: number;
  share?: number;
  memory_roof?: string;
  compute_roof?: string;
  bound?: string;
  sentence?: string;
  notes?: string[];
  work?: RunWork;
  median_interval_ns?: number[];
}

/** The answer of session.run. */
export interface Run {
  run: number;
  kernel: string;
  dispatch: number;
  variant: string;
  outcome: Outcome;
  device: Device;
  asked: Conditions;
  ran: Conditions;
  samples_ns: number[];
  summary: Summary;
  captured_bytes: number;
  restored_bytes_per_iteration: number;
  written_bytes: number;
  address_mode: string;
  address_by: string;
  rewritten_words: number;
  resources: RunResources;
  code_hash: string;
  validation: Validation;
  notes: string[];
  wall_ms: number;
  roofline?: Roofline;
  from_store?: boolean;
  replay_averages_ns?: number[];
  counters?: unknown;
  throughput?: Throughput;
  delta?: Delta;
  job?: number;
  session?: Session;
  next_actions?: NextAction[];
}

export interface Interval {
  ratio: number;
  low: number;
  high: number;
  alpha: number;
  /** none: there is no interval */
  from: string;
}

export interface Letter {
  time_ns: number;
  launches: number;
  clock_mhz?: number;
}

export interface Block {
  placement: number;
  order: string;
  at_s: number;
  a: Letter[];
  b: Letter[];
  dropped?: string;
}

export interface Look {
  placements: number;
  alpha: number;
}

export interface Design {
  margin: number;
  floor: number;
  delta: number;
  most_dropped: number;
  seed: number;
  alpha: number;
  looks: Look[];
}

export interface Conclusion {
  verdict: string;
  reason: string;
  interval: Interval;
  placements: number;
  blocks: number;
  blocks_dropped: number;
  dropped: Record<string, number>;
  look: number;
  decided: boolean;
  headline: string;
  cycles?: Interval;
}

export interface EnvironmentSample {
  at_s: number;
  taken_share?: number;
  sm_mhz?: number;
  memory_mhz?: number;
  power_w?: number;
  temperature_c?: number;
  reasons?: unknown;
}

export interface Environment {
  source: string;
  why?: string;
  samples?: EnvironmentSample[];
}

/** Of the noise: how far two copies of the same code differ. */
export interface Floor {
  value: number;
  budget_s?: number;
  at?: string;
  class?: string;
  key?: string;
  measured?: boolean;
  keep?: boolean;
  placements?: number;
  interval?: Interval;
}

/** The A/B experiment itself. */
export interface Comparison {
  design: Design;
  blocks: Block[];
  interrupted: boolean;
  conclusion: Conclusion;
  blocks_per_placement?: number;
  budget_s?: number;
  clocks?: string;
  environment?: Environment;
  floor?: Floor;
  launches_per_letter?: number;
  placement?: string;
  spent_s?: Record<string, number>;
  timer_step_ns?: number;
  warm_up?: Record<string, unknown>;
}

export interface RooflinePair {
  a?: Roofline | null;
  b?: Roofline | null;
}

/** The answer of session.compare. */
export interface Compared {
  kernel: string;
  dispatch: number;
  verdict: Verdict;
  device: Device;
  asked: Conditions;
  ran: Conditions;
  address_mode: string;
  a: Summary;
  b: Summary;
  variants: VariantAnswer[];
  notes: string[];
  outcome: Outcome;
  roofline?: RooflinePair;
  comparison?: Comparison;
  ratio?: Interval;
  headline?: string;
  job?: number;
  session?: Session;
  next_actions?: NextAction[];
}

export interface ReportSide {
  label: string;
  code_hash?: string;
  resources?: Resources;
  outcome?: string;
  variant?: string;
  captured?: boolean;
  language?: string;
  compiler?: string;
  options?: unknown;
  launch?: LaunchOverride;
  made_at?: string;
  source?: unknown;
  roofline?: Roofline;
}

export interface ReportSamples {
  taken: number;
  kept: number;
  times_ns: number[];
}

export interface ReportSamplesPair {
  a: ReportSamples;
  b: ReportSamples;
}

export interface ReportConditions {
  asked?: Conditions;
  ran?: Conditions;
}

export interface ReportVerdict {
  comparison: number;
  at: string;
  correctness: Correctness;
  speed: Speed;
  reason: string;
  ratio?: number;
}

export interface ReportKernel {
  name: string;
  dispatch: number;
  entry_point?: string;
  nth?: number;
  call?: string;
  grid?: Dim3;
  block?: Dim3;
}

/** The evidence of one comparison. */
export interface ComparisonReport {
  schema: string;
  klab: string;
  made_at: string;
  kernel: ReportKernel;
  device?: Device;
  conditions: ReportConditions;
  address_mode?: string;
  a: ReportSide;
  b: ReportSide;
  verdict: ReportVerdict;
  validation?: Validation;
  comparison?: Comparison;
  samples: ReportSamplesPair;
  notes?: string[];
  bundle?: unknown;
}

/** One measured rate of a device. */
export interface Figure {
  kind: 'launch' | 'memory' | 'cache' | 'vector' | 'matrix';
  name: string;
  unit: string;
  value: number;
  q1: number;
  q3: number;
  best: number;
  samples: number;
  config: string;
  how?: string;
  shape?: string;
  width?: number;
  work?: number;
  working_set?: number;
  burst?: number;
  sustained_ms?: number;
  clock_mhz?: number;
  ceiling_only?: boolean;
  tried?: unknown[];
}

export interface Missing {
  name: string;
  why: string;
}

export interface Calibration {
  device: Device;
  klab: string;
  made_at: number;
  made: string;
  took_s: number;
  figures: Figure[];
  missing: Missing[];
  notes: string[];
  last_level_cache?: number;
  expired?: boolean;
}

export type ProofState = 'not_run' | 'equal' | 'nondeterministic' | 'differs' | 'failed';

/** Does the capture replay to the captured outcome. */
export interface Proof {
  state: ProofState;
  detail: string;
  differing_bytes: number;
  varying: unknown[];
  varying_bytes: number;
  replays: number;
  at: string;
}

export interface Region {
  id: number;
  name: string;
  address: string;
  size: number;
  kind: string;
  reached_by: string;
  allocation?: number;
  allocation_offset?: number;
  memory_flags?: number;
  usage?: number;
  pre?: number | null;
  post?: number | null;
}

/** As the capture has it. */
export interface Dispatch {
  name: string;
  entry_point: string;
  code: number;
  grid: Dim3;
  block: Dim3;
  nth: number;
  sequence: number;
  program_ns: number;
  call: string;
  dynamic_shared_bytes: number;
  bindings: unknown[];
  layout?: unknown[];
  push_constants?: string;
  spec_constants?: unknown[];
  regions: Region[];
  proof: Proof;
}

/** The answer of session.capture. */
export interface Captured {
  bundle: string;
  captured_bytes: number;
  stored_bytes: number;
  dispatches: Dispatch[];
  proofs: Proof[];
  id: string;
  shim_ms?: number;
  target_exit: number;
  warnings: string[];
  job?: number;
  session?: Session;
  next_actions?: NextAction[];
}

/** The answer of session.capture with dry_run. */
export interface CapturePreview {
  state: 'preview';
  kernel: string;
  nth: number;
  scope: string;
  captured_bytes: number;
  target_exit: number;
  warnings: string[];
  job?: number;
  session?: Session;
  next_actions?: NextAction[];
}

export interface CapturedDispatch {
  kernel: string;
  nth: number;
  grid: Dim3;
  block: Dim3;
  regions: number;
  captured_bytes: number;
  proof: Proof;
}

export interface CaptureSummary {
  bundle: string;
  device?: Device;
  made_at?: string;
  dispatches?: CapturedDispatch[];
  /** why it cannot be read */
  gone?: string;
}

export interface Counts {
  variants: number;
  runs: number;
  comparisons: number;
  jobs: number;
  events: number;
  saves: number;
}

export interface Caps {
  runs: number;
  max_runs: number;
  left: number;
}

export interface RunningJob {
  job: number;
  kind: string;
  since: string;
}

export interface VariantStanding {
  variant: string;
  name: string;
  /** or not_compared */
  correctness: string;
  ratio: number | null;
}

/** A file that may be the source of the kernel. */
export interface Candidate {
  file: string;
  evidence: string;
  because: string[];
  options?: Options;
  score?: number;
  line?: number;
}

export interface Found {
  candidates: Candidate[];
  selected: string;
  own_source?: string;
  job?: number;
  session?: Session;
  next_actions?: NextAction[];
}

export interface Saved {
  id: string;
  file: string;
  backup: string;
  before_hash: string;
  after_hash: string;
  at: string;
  undone: boolean;
  undo_of?: string;
}

export interface SaveRow {
  id: string;
  variant: string;
  file: string;
  backup: string;
  before_hash: string;
  after_hash: string;
  approved_by: string;
  at: string;
  undone?: boolean;
}

export interface SaveAnswer {
  state: 'preview' | 'saved' | 'unchanged';
  file: string;
  diff?: string;
  before_hash?: string;
  after_hash?: string;
  verdict?: Verdict;
  token?: string;
  approve_with?: string;
  saved?: Saved;
  undo?: string;
  job?: number;
  session?: Session;
  next_actions?: NextAction[];
}

/** A save that waits for a person. */
export interface Approval {
  token: string;
  session: string;
  variant: string;
  file: string;
  before_hash: string;
  after_hash: string;
  diff: string;
  state: string;
  made_at: string;
  expires: number;
  asked_by: string;
  decided_by?: string;
}

export interface TracedKernel {
  name: string;
  entry_point: string;
  hash: string;
  code_hash?: string;
  block: Dim3;
  calls: number;
  total_ns: number;
  median_ns: number;
  min_ns: number;
  max_ns: number;
  share: number;
  refusal: string;
}

/** The answer of session.trace. */
export interface Traced {
  list: string;
  source: string;
  device: Device;
  dispatches: number;
  kernels: TracedKernel[];
  exit_code: number;
  warnings: string[];
  file?: string;
  job?: number;
  session?: Session;
  next_actions?: NextAction[];
}

export interface KernelRow {
  /** its index in the list */
  kernel: number;
  name: string;
  hash: string;
  entry_point: string;
  calls: number;
  total_ns: number;
  median_ns: number;
  min_ns: number;
  max_ns: number;
  share: number;
  block: Dim3;
  /** why it cannot be tuned, empty when it can */
  refusal: string;
}

export interface DispatchRow {
  kernel: number;
  name: string;
  sequence: number;
  nth: number;
  grid: Dim3;
  block: Dim3;
  queue: number;
  begin_ns: number;
  gpu_ns: number;
  call: string;
  refusal: string;
}

/** busy share from 0 to 1, index of the kernel with the most time or -1 */
export type TimelineBin = number[];

export interface TimelineQueue {
  queue: number;
  bins: TimelineBin[];
}

/** queue, kernel, sequence, begin_ns, gpu_ns */
export type TimelineSpan = number[];

/** What the person who started the server lets the page touch. */
export interface Allowed {
  roots: string[];
  programs: string[];
  save_roots: string[];
  read_only: boolean;
}

export interface About {
  version: string;
  home: string;
  platform?: string;
  host?: string;
  allowed: Allowed;
  last_event?: number;
}

export interface Worker {
  pid: number;
  device: string;
  state: string;
  for_s: number;
  requests: number;
  started_at: string;
  doing?: string;
}

export interface Queued {
  device: string;
  what: string;
  place: number;
}

/** The answer of session.status. */
export interface StatusAnswer {
  view: string;
  session: Session;
  next_actions: NextAction[];
  /** rows of the view */
  items?: unknown[];
  next_cursor?: string;
  text?: string;
  file?: string;
  hash?: string;
  variant?: string;
  left_out_bytes?: number;
  job?: number;
  counts?: Counts;
  caps?: Caps;
  running?: RunningJob;
  capture?: CaptureSummary;
  variants?: VariantStanding[];
  source_file?: string;
}

export type CaptureAnswer = Captured | CapturePreview;

export interface Verbs {
  /** Open a laboratory. */
  'session.open': {
    arguments: {
      name?: string | undefined;
      /** name of an allowed program */
      program?: string | undefined;
      bundle?: string | undefined;
    };
    result: {
      session: Session;
      next_actions: NextAction[];
    };
  };
  /** Sessions, the newest first. */
  'session.list': {
    arguments: {
      closed?: boolean | undefined;
      limit?: number | undefined;
    };
    result: {
      sessions: Session[];
      next_actions: NextAction[];
    };
  };
  /** One session: what the view says; members of other views are left out. */
  'session.status': {
    arguments: {
      session: string;
      view?: 'summary' | 'dispatches' | 'variants' | 'runs' | 'comparisons' | 'jobs' | 'events' | 'saves' | 'source' | 'diff' | 'disassembly' | 'log' | undefined;
      cursor?: string | undefined;
      limit?: number | undefined;
      variant?: string | undefined;
      run?: number | undefined;
      job?: number | undefined;
    };
    result: StatusAnswer;
  };
  /** Run the program and list its dispatches. */
  'session.trace': {
    arguments: {
      session: string;
      limit_s?: number | undefined;
    };
    result: Traced;
  };
  /** Find the kernel's source under the roots. */
  'session.search': {
    arguments: {
      session: string;
      query?: string | undefined;
      root?: string | undefined;
    };
    result: Found;
  };
  /** Say which source file or which dispatch it is. */
  'session.select': {
    arguments: {
      session: string;
      file?: string | undefined;
      dispatch?: Selection | undefined;
      options?: unknown | undefined;
    };
    result: {
      selected?: string;
      dispatch?: Selection;
      session: Session;
      next_actions: NextAction[];
    };
  };
  /** Take one dispatch with its inputs; with dry_run only say how much. */
  'session.capture': {
    arguments: {
      session: string;
      kernel?: string | undefined;
      nth?: number | undefined;
      scope?: 'reachable' | 'all' | undefined;
      max_bytes?: number | undefined;
      dry_run?: boolean | undefined;
      stop_after_capture?: boolean | undefined;
      limit_s?: number | undefined;
    };
    result: CaptureAnswer;
  };
  /** Build a variant. */
  'session.build': {
    arguments: {
      session: string;
      source?: string | undefined;
      source_text?: string | undefined;
      language?: string | undefined;
      name?: string | undefined;
      options?: unknown | undefined;
      defines?: string[] | undefined;
      include_folders?: string[] | undefined;
      grid?: string | undefined;
      block?: string | undefined;
      cluster?: string | undefined;
      dynamic_shared?: string | undefined;
      attributes?: string[] | undefined;
      spec_constants?: string[] | undefined;
      push_constants?: string[] | undefined;
      subgroup_size?: number | undefined;
      arch?: string | undefined;
      compiler?: string | undefined;
      standard?: string | undefined;
      kernel?: string | undefined;
      fast_math?: boolean | undefined;
      line_info?: boolean | undefined;
      max_registers?: number | undefined;
      compile_commands?: string | undefined;
      no_compile_commands?: boolean | undefined;
      instructions?: boolean | undefined;
    };
    result: Built;
  };
  /** Time the baseline or a variant under stated conditions. */
  'session.run': {
    arguments: {
      session: string;
      variant?: string | undefined;
      dispatch?: number | undefined;
      counters?: string[] | undefined;
      validate?: boolean | undefined;
      cached?: boolean | undefined;
      mode?: Mode | undefined;
      iterations?: number | undefined;
      repeats?: number | undefined;
      cache?: CacheState | undefined;
      memory?: string | undefined;
      flush_mb?: number | undefined;
      device?: string | undefined;
      budget_s?: number | undefined;
      level?: string | undefined;
      types?: string[] | undefined;
      tolerances?: string[] | undefined;
      checker?: string[] | undefined;
      references?: string[] | undefined;
      seed?: number | undefined;
      other_captures?: boolean | undefined;
      unseen_launches?: Record<string, unknown>[] | undefined;
      flops?: string[] | undefined;
      bytes?: string[] | undefined;
      grid?: string | undefined;
      block?: string | undefined;
      cluster?: string | undefined;
      dynamic_shared?: string | undefined;
      attributes?: string[] | undefined;
      spec_constants?: string[] | undefined;
      push_constants?: string[] | undefined;
      subgroup_size?: number | undefined;
    };
    result: Run;
  };
  /** Judge a variant: is it right, and is it faster. */
  'session.compare': {
    arguments: {
      session: string;
      variant: string;
      against?: string | undefined;
      dispatch?: number | undefined;
      measure_s?: number | undefined;
      margin?: number | undefined;
      mode?: Mode | undefined;
      iterations?: number | undefined;
      repeats?: number | undefined;
      cache?: CacheState | undefined;
      memory?: string | undefined;
      flush_mb?: number | undefined;
      device?: string | undefined;
      budget_s?: number | undefined;
      level?: string | undefined;
      types?: string[] | undefined;
      tolerances?: string[] | undefined;
      checker?: string[] | undefined;
      references?: string[] | undefined;
      seed?: number | undefined;
      other_captures?: boolean | undefined;
      unseen_launches?: Record<string, unknown>[] | undefined;
      flops?: string[] | undefined;
      bytes?: string[] | undefined;
    };
    result: Compared;
  };
  /** Preview a save, then with its token and approved write it. */
  'session.save': {
    arguments: {
      session: string;
      variant: string;
      file?: string | undefined;
      base_hash?: string | undefined;
      token?: string | undefined;
      approved?: boolean | undefined;
    };
    result: SaveAnswer;
  };
  /** Put a save back. */
  'session.undo': {
    arguments: {
      session: string;
      save: string;
      force?: boolean | undefined;
    };
    result: {
      state: string;
      file: string;
      saved?: Saved;
      session: Session;
      next_actions: NextAction[];
    };
  };
  /** Saves that wait for a person. */
  'session.approvals': {
    arguments: {
      session?: string | undefined;
    };
    result: {
      approvals: Approval[];
    };
  };
  /** A person's word on a save. */
  'session.approve': {
    arguments: {
      token: string;
      deny?: boolean | undefined;
    };
    result: {
      approval: Approval;
    };
  };
  /** The evidence of a whole session. */
  'session.report': {
    arguments: {
      session: string;
    };
    result: {
      report: Record<string, unknown>;
    };
  };
  /** Delete the captured inputs; results, logs and backups stay. */
  'session.close': {
    arguments: {
      session: string;
    };
    result: {
      freed_bytes: number;
      kept: string[];
      session: Session;
      next_actions: NextAction[];
    };
  };
  /** The evidence of one comparison. */
  'report': {
    arguments: {
      comparison: number;
    };
    result: {
      report: ComparisonReport;
    };
  };
  /** GPUs that can be replayed on. */
  'devices': {
    arguments: {
    };
    result: {
      devices: DeviceEntry[];
    };
  };
  /** Measure what a device attains, or take it from the cache. */
  'calibrate': {
    arguments: {
      api?: string | undefined;
      device?: string | undefined;
      force?: boolean | undefined;
      budget_s?: number | undefined;
    };
    result: {
      calibration: Calibration;
      cached: boolean;
    };
  };
  /** Calibrations that are kept. */
  'calibrations': {
    arguments: {
      api?: string | undefined;
      device?: string | undefined;
    };
    result: {
      calibrations: Calibration[];
    };
  };
  /** Kernels of a list. */
  'dispatches.kernels': {
    arguments: {
      session?: string | undefined;
      list?: string | undefined;
      text?: string | undefined;
      sort?: 'total_ns' | 'calls' | 'median_ns' | 'max_ns' | 'name' | undefined;
      descending?: boolean | undefined;
      offset?: number | undefined;
      limit?: number | undefined;
    };
    result: {
      total: number;
      items: KernelRow[];
      dispatches?: number;
      source: string;
      device?: unknown;
      program?: unknown;
      exit_code?: unknown;
      warnings?: string[];
    };
  };
  /** Dispatches of a list. */
  'dispatches.rows': {
    arguments: {
      session?: string | undefined;
      list?: string | undefined;
      kernel?: number | undefined;
      text?: string | undefined;
      queue?: number | undefined;
      from_ns?: number | undefined;
      to_ns?: number | undefined;
      sort?: 'sequence' | 'begin_ns' | 'gpu_ns' | 'kernel' | 'nth' | 'grid' | 'queue' | undefined;
      descending?: boolean | undefined;
      offset?: number | undefined;
      limit?: number | undefined;
    };
    result: {
      total: number;
      items: DispatchRow[];
    };
  };
  /** Busy shares over time, one lane for each queue. */
  'dispatches.timeline': {
    arguments: {
      session?: string | undefined;
      list?: string | undefined;
      from_ns?: number | undefined;
      to_ns?: number | undefined;
      bins?: number | undefined;
    };
    result: {
      first_ns?: number;
      last_ns?: number;
      from_ns: number;
      to_ns: number;
      queues: TimelineQueue[];
      spans?: TimelineSpan[];
    };
  };
  /** Start a verb as a job. */
  'job.start': {
    arguments: {
      verb: string;
      arguments?: Record<string, unknown> | undefined;
      session?: string | undefined;
    };
    result: {
      job: number;
    };
  };
  /** Wait for a job. */
  'job.wait': {
    arguments: {
      job: number;
      wait_s?: number | undefined;
    };
    result: {
      job: JobRow;
      progress?: Progress;
    };
  };
  /** Cancel a job. */
  'job.cancel': {
    arguments: {
      job: number;
    };
    result: {
      job: JobRow;
    };
  };
  /** What happened after an event. */
  'events.wait': {
    arguments: {
      session?: string | undefined;
      after?: number | undefined;
      wait_s?: number | undefined;
      limit?: number | undefined;
    };
    result: {
      events: EventRow[];
      last: number;
    };
  };
  /** Workers, queue and jobs. */
  'hub.status': {
    arguments: {
    };
    result: {
      pid: number;
      home: string;
      up_s: number;
      at_work: number;
      jobs: ActiveJob[];
      workers: Worker[];
      queue: Queued[];
      compilers?: unknown;
    };
  };
}

export type Verb = keyof Verbs;
export type Arguments<V extends Verb> = Verbs[V]['arguments'];
export type Answer<V extends Verb> = Verbs[V]['result'];
