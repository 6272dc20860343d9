/* SPDX-License-Identifier: Apache-2.0
 * What a shim and klab say to each other: C records over one AF_UNIX SOCK_SEQPACKET connection for each
 * process of the target, bulk data through a shared ring of slots. Not here: what is done with them
 * (shim/vulkan, capture/).
 *
 * Every message is one packet that starts with klab_header; `size` is the packet's own length, so a record
 * that grows at its end can still be read by an older klab (it looks at the members that it knows). Texts
 * follow the fixed part, in the order of their *_length members, unterminated.
 *
 * A process connects to $KLAB_CAPTURE_SOCKET, sends HELLO, and receives CONFIG with the ring's descriptor
 * (SCM_RIGHTS). Then it sends records as things happen. It waits only after SIZE (for ANSWER), and when all
 * slots are in flight (for ACK). Either side may close at any time; the program goes on without us. */
#ifndef KLAB_SHIM_ABI_H
#define KLAB_SHIM_ABI_H

#include <stdint.h>

#define KLAB_ABI_VERSION 2u
#define KLAB_SOCKET_VARIABLE "KLAB_CAPTURE_SOCKET"
#define KLAB_SLOT_BYTES (1u << 20) /* of a bundle's chunk */
#define KLAB_SLOTS 32u
#define KLAB_MAX_PACKET 65536u
#define KLAB_MAX_NTH 1024u
#define KLAB_MAX_TEXT 16384u

enum klab_message {
  /* shim -> klab */
  KLAB_HELLO = 1,
  KLAB_DEVICE = 2, /* before any record that names this device */
  KLAB_KERNEL = 3, /* before any record that names this kernel; its code follows as DATA when has_code */
  KLAB_ROWS = 4,   /* trace mode: klab_row[count] */
  KLAB_CAPTURE_BEGIN = 5, /* one at a time in a process */
  KLAB_BINDINGS = 6,      /* klab_binding[count] */
  KLAB_LAYOUT = 7,        /* klab_layout_slot[count] */
  KLAB_SPEC = 8,          /* klab_spec[count] */
  KLAB_PUSH_RANGES = 9,   /* klab_push_range[count] */
  KLAB_REGION = 10,
  KLAB_SIZE = 11,        /* bytes known so far; klab answers before their data is sent */
  KLAB_DATA = 12,        /* a slot is filled; klab gives it back with ACK */
  KLAB_CAPTURE_END = 13, /* all of one capture has been sent */
  KLAB_REFUSED = 14,     /* the wanted execution cannot be captured; text says what it uses */
  KLAB_NOTE = 15,        /* something was left out, or is worth a warning */
  KLAB_SUBMITTED = 17,   /* the submission that held wanted executions is on its way */
  KLAB_LAUNCH = 18,      /* after CAPTURE_BEGIN: what CUDA and HIP launches have besides */
  KLAB_ARGUMENTS = 19,   /* klab_argument[count] */
  KLAB_ATTRIBUTE = 20,
  KLAB_TEXTURE = 21, /* after the region of its texels */
  KLAB_DEVICE_DETAIL = 22, /* after its DEVICE */
  KLAB_AQL = 23,           /* after LAUNCH: the packet of a HIP dispatch */
  KLAB_COUNTS = 16,      /* klab_count[count]: executions of each kernel so far, absolute */
  /* klab -> shim */
  KLAB_CONFIG = 64,
  KLAB_ANSWER = 65,
  KLAB_ACK = 66
};

enum klab_mode { KLAB_MODE_NONE = 0, KLAB_MODE_TRACE = 1, KLAB_MODE_CAPTURE = 2 };
enum klab_scope { KLAB_SCOPE_REACHABLE = 0, KLAB_SCOPE_ALL = 1 };
enum klab_answer {
  KLAB_GO = 1,
  KLAB_STOP = 2,
  KLAB_COUNT_ONLY = 3 /* over the cap: find out how much it would be */
};
enum klab_data { KLAB_DATA_CODE = 1, KLAB_DATA_PRE = 2, KLAB_DATA_POST = 3 };
enum klab_reached { /* order of bundle::ReachedBy */
  KLAB_REACHED_BINDING = 0,
  KLAB_REACHED_POINTER = 1,
  KLAB_REACHED_SCOPE = 2,
  KLAB_REACHED_ARGUMENT = 3,
  KLAB_REACHED_SYMBOL = 4
};
enum klab_api { KLAB_API_VULKAN = 0, KLAB_API_CUDA = 1, KLAB_API_HIP = 2 };
enum klab_memory { /* order of bundle::MemoryKind */
  KLAB_MEMORY_DEVICE = 0,
  KLAB_MEMORY_MANAGED = 1,
  KLAB_MEMORY_PINNED_HOST = 2,
  KLAB_MEMORY_MODULE_VARIABLE = 3,
  KLAB_MEMORY_CONSTANT = 4,
  KLAB_MEMORY_IMAGE = 5
};
enum klab_call {
  KLAB_CALL_DISPATCH = 1,
  KLAB_CALL_DISPATCH_BASE = 2,
  KLAB_CALL_DISPATCH_BASE_KHR = 3,
  KLAB_CALL_DISPATCH_INDIRECT = 4,
  KLAB_CALL_CUDA_LAUNCH = 16,
  KLAB_CALL_CUDA_LAUNCH_EX = 17,
  KLAB_CALL_CUDA_LAUNCH_COOPERATIVE = 18,
  KLAB_CALL_CUDA_GRAPH = 19,
  KLAB_CALL_HSA_DISPATCH = 32
};

typedef struct klab_header {
  uint32_t type;
  uint32_t size; /* of the whole packet */
} klab_header;

typedef struct klab_hello { /* + executable */
  klab_header h;
  uint32_t abi_version;
  uint32_t struct_size; /* sizeof(klab_config): what this shim can read */
  int64_t pid;
  uint64_t start_time; /* CLOCK_MONOTONIC, ns */
  uint32_t executable_length;
  uint32_t reserved;
} klab_hello;

typedef struct klab_config { /* + kernel, then nth as uint64_t[nth_count] */
  klab_header h;
  uint32_t abi_version;
  uint32_t mode;
  uint32_t scope;
  uint32_t flags;
  uint64_t deadline_ns; /* to drain a queue */
  uint32_t slot_count;
  uint32_t slot_bytes;
  uint32_t kernel_length;
  uint32_t nth_count;
} klab_config;

typedef struct klab_device { /* + name, driver, driver_version */
  klab_header h;
  uint32_t device; /* number in this process, from 0 */
  uint32_t type;   /* VkPhysicalDeviceType */
  uint32_t vendor_id, device_id;
  uint32_t api_version;
  uint32_t has_uuid;
  uint8_t uuid[16];
  uint32_t name_length, driver_length, driver_version_length;
  uint32_t api; /* klab_api; CUDA: api_version is cuDriverGetVersion's, device_id the compute capability (90);
                   HIP: api_version is HSA's, 1000 * major + minor */
} klab_device;

typedef struct klab_device_detail { /* + arch, address */
  klab_header h;
  uint32_t device;
  uint32_t arch_length, address_length; /* address: on the bus, in place of a uuid that is not there */
  uint32_t reserved;
} klab_device_detail;

typedef struct klab_kernel { /* + name, entry, refusal, code_name */
  klab_header h;
  uint32_t kernel; /* number in this process, from 0 */
  uint32_t has_code;
  uint64_t hash; /* of code, entry point, specialization and layout */
  uint64_t code_hash_low, code_hash_high;
  uint64_t code_size;
  uint32_t required_subgroup_size;
  uint32_t stage_flags;
  uint32_t pipeline_flags;
  uint32_t name_length, entry_length, refusal_length, code_name_length;
  uint32_t spec_count; /* klab_spec records after the texts, so that the block can be known */
} klab_kernel;

typedef struct klab_row {
  uint32_t kernel;
  uint32_t call;
  uint64_t sequence, nth;
  uint32_t grid[3];
  uint32_t queue; /* CUDA: the stream's number */
  double begin_ns, gpu_ns; /* gpu_ns 0: not known */
  uint32_t block[3];       /* 0: that of the kernel's code (Vulkan) */
  uint32_t dynamic_shared_bytes;
} klab_row;

/* Trace mode: the last slot is not used for DATA. It begins with this, then klab_row[count]: rows that have
 * not been sent as ROWS yet. When the connection ends, klab takes them from there, so that a program which
 * crashes loses none. A row may be in both (its sequence tells). */
typedef struct klab_pending {
  uint32_t count;
  uint32_t reserved;
} klab_pending;
#define KLAB_MAX_PENDING ((KLAB_SLOT_BYTES - 8u) / 80u)

typedef struct klab_list { /* ROWS, BINDINGS, LAYOUT, SPEC, PUSH_RANGES, ARGUMENTS, COUNTS: + `count` records of that
                              kind */
  klab_header h;
  uint32_t device;
  uint32_t count;
} klab_list;

typedef struct klab_capture_begin { /* + push constants */
  klab_header h;
  uint32_t device;
  uint32_t kernel;
  uint32_t call;
  uint32_t queue;
  uint64_t nth, sequence;
  uint32_t grid[3], base[3];
  uint32_t push_bytes;
  uint32_t reserved;
} klab_capture_begin;

typedef struct klab_binding {
  uint32_t set, binding, element, vulkan_type;
  uint32_t region;
  uint32_t reserved;
  uint64_t offset, range; /* from the region's start; dynamic offset included */
} klab_binding;

typedef struct klab_layout_slot {
  uint32_t set, binding, vulkan_type, count, push_descriptor, reserved;
} klab_layout_slot;

typedef struct klab_spec {
  uint32_t id, size;
  uint8_t value[8];
} klab_spec;

typedef struct klab_push_range {
  uint32_t offset, size;
} klab_push_range;

typedef struct klab_count {
  uint32_t kernel, reserved;
  uint64_t executions;
} klab_count;

typedef struct klab_region { /* + name */
  klab_header h;
  uint32_t region; /* ascending from 0 within the capture */
  uint32_t reached_by;
  uint64_t address, bytes;
  uint64_t allocation, allocation_offset;
  uint64_t opaque_address, opaque_memory;
  uint32_t memory_flags, usage;
  uint32_t name_length;
  uint32_t memory; /* klab_memory; of a module variable or constant the name is its symbol */
} klab_region;

typedef struct klab_launch { /* + the parameter buffer */
  klab_header h;
  uint32_t block[3], cluster[3];
  uint32_t dynamic_shared_bytes;
  uint32_t argument_bytes;
} klab_launch;

typedef struct klab_aql { /* CAPTURE_BEGIN's grid is in blocks, rounded up */
  klab_header h;
  uint32_t threads[3]; /* grid in work-items */
  uint32_t group_segment_bytes, private_segment_bytes;
  uint16_t header;      /* type, barrier bit, fence scopes */
  uint16_t cooperative; /* the queue is */
} klab_aql;

typedef struct klab_argument {
  uint32_t offset, size;
} klab_argument;

typedef struct klab_attribute { /* + name, as bundle::LaunchAttribute has it */
  klab_header h;
  int64_t value;
  uint32_t name_length;
  uint32_t reserved;
} klab_attribute;

typedef struct klab_texture { /* + resource, format, sampling: bundle::TextureObject */
  klab_header h;
  uint64_t handle, offset;
  uint64_t width, height, depth, pitch, linear_bytes;
  uint32_t region, surface, channels, array_flags;
  uint32_t resource_length, format_length, sampling_length;
  uint32_t reserved;
} klab_texture;

typedef struct klab_size {
  klab_header h;
  uint64_t bytes;
  uint32_t final; /* nothing more will be found; sent after COUNT_ONLY */
  uint32_t reserved;
} klab_size;

typedef struct klab_data_record {
  klab_header h;
  uint32_t kind;   /* klab_data */
  uint32_t id;     /* kernel or region */
  uint64_t offset; /* in the code or region; a multiple of the slot size */
  uint32_t slot;
  uint32_t bytes;
} klab_data_record;

typedef struct klab_capture_end {
  klab_header h;
  double program_ns; /* GPU time of the program's own execution; 0: not known */
} klab_capture_end;

typedef struct klab_submitted {
  klab_header h;
  double waited_ms; /* wall time that the submission took longer for us */
  uint32_t last;    /* nothing more is wanted */
  uint32_t reserved;
} klab_submitted;

typedef struct klab_text { /* REFUSED, NOTE: + what, why */
  klab_header h;
  uint64_t nth;
  uint32_t kernel;
  uint32_t what_length, why_length;
  uint32_t reserved;
} klab_text;

typedef struct klab_answer_record {
  klab_header h;
  uint32_t answer;
  uint32_t reserved;
} klab_answer_record;

typedef struct klab_ack {
  klab_header h;
  uint32_t slot;
  uint32_t reserved;
} klab_ack;

#endif
