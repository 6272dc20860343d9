// SPDX-License-Identifier: Apache-2.0
// The shim in a program without a GPU: a driver over host memory stands where libcuda would, and the
// program's calls are made by hand through the callback that CUPTI would call. capture/ runs it. Scenario:
// its first argument.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "shim/common/link.h"
#include "shim/cuda/callbacks.h"
#include "shim/cuda/capture.h"
#include "shim/cuda/device.h"
#include "shim/cuda/drain.h"
#include "shim/cuda/driver.h"
#include "shim/cuda/kernels.h"
#include "shim/cuda/snapshot.h"
#include "shim/cuda/trace.h"

namespace {
using namespace klab::shim;

// ---- The driver.

struct Handle {
  const char* name;
  bool kernel;  // a CUkernel: the function calls refuse it
};
Handle step_function{"step", false}, step_kernel{"step", true}, template_function{"_Z4tmplIfEvPT_d", false};
std::vector<char> cubin;
bool lazy = false;        // the code is loaded when its function is asked for
bool told_layout = true;  // the driver has cuFuncGetParamInfo
bool never_idle = false, default_stream_busy = false;
CUevent in_default_stream = nullptr;
std::set<CUstream> recording;
std::map<std::string, std::vector<std::byte>> variables;
struct Array {
  CUDA_ARRAY3D_DESCRIPTOR desc;
  std::vector<std::byte> texels;
};
int events = 0, streams_made = 0, pinned = 0;  // of the shim: must be zero at the end
thread_local std::vector<CUcontext> contexts{reinterpret_cast<CUcontext>(0x1000)};

void load_module(std::uint32_t id) {
  CUpti_ModuleResourceData m{id, cubin.size(), cubin.data()};
  CUpti_ResourceData r{};
  r.resourceDescriptor = &m;
  on_callback(nullptr, CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_MODULE_LOADED, &r);
}

void fake_driver() {
  Driver& d = driver();
  d.GetErrorName = [](CUresult, const char** name) { return *name = "CUDA_ERROR_FAKE", CUDA_SUCCESS; };
  d.DriverGetVersion = [](int* v) { return *v = 13000, CUDA_SUCCESS; };
  d.DeviceGet = [](CUdevice* device, int n) { return *device = n, CUDA_SUCCESS; };
  d.DeviceGetName = [](char* name, int size, CUdevice) {
    return std::snprintf(name, static_cast<std::size_t>(size), "Fake GPU"), CUDA_SUCCESS;
  };
  d.DeviceGetAttribute = [](int* v, CUdevice_attribute which, CUdevice) {
    *v = which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 9 : 0;
    return CUDA_SUCCESS;
  };
  d.DeviceGetUuid = [](CUuuid* uuid, CUdevice) {
    return std::memset(uuid, 0xab, sizeof *uuid), CUDA_SUCCESS;
  };
  d.CtxGetCurrent = [](CUcontext* c) {
    return *c = contexts.empty() ? nullptr : contexts.back(), CUDA_SUCCESS;
  };
  d.CtxSetCurrent = [](CUcontext c) { return contexts.assign(1, c), CUDA_SUCCESS; };
  d.CtxGetDevice = [](CUdevice* device) { return *device = 0, CUDA_SUCCESS; };
  d.CtxPushCurrent = [](CUcontext c) { return contexts.push_back(c), CUDA_SUCCESS; };
  d.CtxPopCurrent = [](CUcontext* c) { return *c = contexts.back(), contexts.pop_back(), CUDA_SUCCESS; };
  d.ThreadExchangeStreamCaptureMode = [](CUstreamCaptureMode* mode) {
    static thread_local CUstreamCaptureMode now = CU_STREAM_CAPTURE_MODE_GLOBAL;
    std::swap(now, *mode);
    return CUDA_SUCCESS;
  };
  d.StreamIsCapturing = [](CUstream s, CUstreamCaptureStatus* status) {
    *status = recording.count(s) != 0 ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
  };
  d.StreamQuery = [](CUstream s) {
    if (recording.count(s) != 0) std::puts("A STREAM THAT RECORDS WAS QUERIED"), std::fflush(stdout);
    return never_idle ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
  };
  d.StreamCreate = [](CUstream* s, unsigned) {
    return ++streams_made, *s = reinterpret_cast<CUstream>(0x7000), CUDA_SUCCESS;
  };
  d.StreamDestroy = [](CUstream) { return --streams_made, CUDA_SUCCESS; };
  d.EventCreate = [](CUevent* e, unsigned) {
    return *e = reinterpret_cast<CUevent>(0x8000 + ++events), CUDA_SUCCESS;
  };
  d.EventDestroy = [](CUevent) { return --events, CUDA_SUCCESS; };
  d.EventRecord = [](CUevent e, CUstream s) {
    if (s == CU_STREAM_LEGACY && default_stream_busy) in_default_stream = e;
    return CUDA_SUCCESS;
  };
  d.EventQuery = [](CUevent e) { return e == in_default_stream ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS; };
  d.EventElapsedTime = [](float* ms, CUevent, CUevent) { return *ms = 0.25f, CUDA_SUCCESS; };
  d.MemcpyDtoHAsync = [](void* to, CUdeviceptr from, std::size_t n, CUstream) {
    return std::memcpy(to, reinterpret_cast<const void*>(from), n), CUDA_SUCCESS;
  };
  d.Memcpy3DAsync = [](const CUDA_MEMCPY3D* c, CUstream) {
    const auto& a = *reinterpret_cast<const Array*>(c->srcArray);
    return std::memcpy(c->dstHost, a.texels.data(), a.texels.size()), CUDA_SUCCESS;
  };
  d.MemHostRegister = [](void*, std::size_t, unsigned) { return ++pinned, CUDA_SUCCESS; };
  d.MemHostUnregister = [](void*) { return --pinned, CUDA_SUCCESS; };
  d.PointerGetAttribute = [](void*, CUpointer_attribute, CUdeviceptr) { return CUDA_ERROR_INVALID_VALUE; };
  d.FuncGetAttribute = [](int* v, CUfunction_attribute which, CUfunction) {
    *v = which == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES      ? 65536
         : which == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT ? -1
                                                                       : 0;
    return CUDA_SUCCESS;
  };
  d.FuncGetModule = [](CUmodule* m, CUfunction) {
    return *m = reinterpret_cast<CUmodule>(0x2000), CUDA_SUCCESS;
  };
  d.FuncGetName = [](const char** name, CUfunction f) {
    const auto& h = *reinterpret_cast<const Handle*>(f);
    if (h.kernel) return CUDA_ERROR_INVALID_HANDLE;
    return *name = h.name, CUDA_SUCCESS;
  };
  d.KernelGetName = [](const char** name, CUkernel k) {
    return *name = reinterpret_cast<const Handle*>(k)->name, CUDA_SUCCESS;
  };
  d.KernelGetFunction = [](CUfunction* f, CUkernel) {
    if (lazy) load_module(7);  // as the driver does: from inside the call
    lazy = false;
    return *f = reinterpret_cast<CUfunction>(&step_function), CUDA_SUCCESS;
  };
  if (told_layout)
    d.FuncGetParamInfo = [](CUfunction, std::size_t i, std::size_t* offset, std::size_t* size) {
      static constexpr std::size_t kLayout[][2] = {{0, 8}, {8, 4}, {16, 32}, {48, 1}};
      if (i >= 4) return CUDA_ERROR_INVALID_VALUE;
      return *offset = kLayout[i][0], *size = kLayout[i][1], CUDA_SUCCESS;
    };
  d.ModuleGetGlobal = [](CUdeviceptr* p, std::size_t* n, CUmodule, const char* name) {
    const auto it = variables.find(name);
    if (it == variables.end()) return CUDA_ERROR_NOT_FOUND;
    *p = reinterpret_cast<CUdeviceptr>(it->second.data());
    return *n = it->second.size(), CUDA_SUCCESS;
  };
  d.Array3DGetDescriptor = [](CUDA_ARRAY3D_DESCRIPTOR* desc, CUarray a) {
    return *desc = reinterpret_cast<const Array*>(a)->desc, CUDA_SUCCESS;
  };
  d.GraphGetNodes = [](CUgraph, CUgraphNode* nodes, std::size_t* n) {
    if (nodes != nullptr) nodes[0] = reinterpret_cast<CUgraphNode>(0x9000);
    return *n = 1, CUDA_SUCCESS;
  };
  d.GraphNodeGetType = [](CUgraphNode, CUgraphNodeType* type) {
    return *type = CU_GRAPH_NODE_TYPE_KERNEL, CUDA_SUCCESS;
  };
  d.GraphKernelNodeGetParams = [](CUgraphNode, CUDA_KERNEL_NODE_PARAMS* p) {
    return *p = {}, p->func = reinterpret_cast<CUfunction>(&step_function), CUDA_SUCCESS;
  };
}

// ---- The program's calls.

template <class Params, class Body>
CUresult call(CUpti_CallbackId id, const Params& params, Body&& body) {
  CUresult result = CUDA_SUCCESS;
  std::uint64_t correlation = 0;
  CUpti_CallbackData d{};
  d.functionParams = &params;
  d.context = contexts.back();
  d.correlationData = &correlation;
  d.callbackSite = CUPTI_API_ENTER;
  on_callback(nullptr, CUPTI_CB_DOMAIN_DRIVER_API, id, &d);
  result = body();
  d.callbackSite = CUPTI_API_EXIT;
  d.functionReturnValue = &result;
  on_callback(nullptr, CUPTI_CB_DOMAIN_DRIVER_API, id, &d);
  return result;
}

std::byte* fill(std::byte* p, std::size_t size, unsigned seed) {
  for (std::size_t i = 0; i < size; ++i) p[i] = static_cast<std::byte>(i * 31 / 7 + seed);
  return p;
}

// Far apart, so that nothing is beside anything by chance.
std::byte* take(std::size_t size, unsigned seed) {
  return fill(static_cast<std::byte*>(std::aligned_alloc(4096, (size + 8191) / 4096 * 4096)), size, seed);
}

std::byte* allocate(std::size_t size, unsigned seed) {
  CUdeviceptr p = 0;
  call(CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2, cuMemAlloc_v2_params{&p, size},
       [&] { return p = reinterpret_cast<CUdeviceptr>(take(size, seed)), CUDA_SUCCESS; });
  return reinterpret_cast<std::byte*>(p);
}
std::byte* allocate_managed(std::size_t size, unsigned seed) {
  CUdeviceptr p = 0;
  call(CUPTI_DRIVER_TRACE_CBID_cuMemAllocManaged, cuMemAllocManaged_params{&p, size, 1},
       [&] { return p = reinterpret_cast<CUdeviceptr>(take(size, seed)), CUDA_SUCCESS; });
  return reinterpret_cast<std::byte*>(p);
}
std::byte* allocate_host(std::size_t size, unsigned seed) {
  void* p = nullptr;
  call(CUPTI_DRIVER_TRACE_CBID_cuMemHostAlloc, cuMemHostAlloc_params{&p, size, 0},
       [&] { return p = take(size, seed), CUDA_SUCCESS; });
  return static_cast<std::byte*>(p);
}
void release(std::byte* p) {
  call(CUPTI_DRIVER_TRACE_CBID_cuMemFree_v2, cuMemFree_v2_params{reinterpret_cast<CUdeviceptr>(p)},
       [] { return CUDA_SUCCESS; });
}
void put(std::byte* at, const void* pointer) { std::memcpy(at, &pointer, sizeof pointer); }

struct Argument {
  const void* p;
  int n;
  int pad;
  const void* q[2];
};

// What step "computes": adds one to the first n bytes of `a`.
void run_step(std::byte* a, int n) {
  for (int i = 0; i < n; ++i) a[i] = static_cast<std::byte>(static_cast<int>(a[i]) + 1);
}

struct Launcher {
  std::byte* a;
  int n;
  Argument s;
  char c = 'k';
  Handle* handle = &step_function;
  CUstream stream = nullptr;

  CUresult launch() {
    void* parameters[] = {&a, &n, &s, &c};
    const cuLaunchKernel_params p{
        reinterpret_cast<CUfunction>(handle), 3, 2, 1, 64, 2, 1, 1024, stream, parameters, nullptr};
    return call(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, p, [&] { return run_step(a, n), CUDA_SUCCESS; });
  }
  CUresult launch_packed(const CUlaunchConfig& config) {
    std::vector<std::byte> buffer(56);
    std::memcpy(buffer.data(), &a, 8);
    std::memcpy(buffer.data() + 8, &n, 4);
    std::memcpy(buffer.data() + 16, &s, sizeof s);
    std::memcpy(buffer.data() + 48, &c, 1);
    std::size_t size = 49;
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer.data(), CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    const cuLaunchKernelEx_params p{&config, reinterpret_cast<CUfunction>(handle), nullptr, extra};
    return call(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx, p, [&] { return run_step(a, n), CUDA_SUCCESS; });
  }
};

std::vector<std::byte>& variable(const char* name, std::size_t size, unsigned seed) {
  auto& v = variables[name];
  v.resize(size);
  fill(v.data(), size, seed);
  return v;
}

// Everything that step can reach, and one allocation that it cannot.
Launcher set_up() {
  std::byte* a = allocate((3u << 20) + 100, 1);
  std::byte* b = allocate(5000, 2);
  std::byte* c = allocate(6000, 3);
  std::byte* d = allocate(7000, 4);
  std::byte* host = allocate_host(8000, 5);
  std::byte* managed = allocate_managed(9000, 6);
  std::byte* gone = allocate(10000, 7);
  allocate(11000, 8);  // not reached
  put(b + 8, d + 16);  // one level, and the next
  put(d + 4096, host + 100);
  put(b + 24, gone + 8);
  release(gone);
  std::byte* constant = allocate(12000, 9);
  variable("table", 64, 10);
  put(variable("cptr", 8, 0).data(), constant);
  put(variable("gptr", 8, 0).data(), managed + 8999);
  variable("garr", 400, 11);
  variable("ginit", 4, 12);
  return {a, 1000, {b, 7, 0, {nullptr, c + 3000}}};
}

int scenario(const std::string& name) {
  const CUmodule module = reinterpret_cast<CUmodule>(0x2000);
  auto load = [&] {
    CUmodule out = nullptr;
    call(CUPTI_DRIVER_TRACE_CBID_cuModuleLoadData, cuModuleLoadData_params{&out, cubin.data()},
         [&] { return load_module(1), out = module, CUDA_SUCCESS; });
  };
  CUstream stream = nullptr;
  call(CUPTI_DRIVER_TRACE_CBID_cuStreamCreate, cuStreamCreate_params{&stream, 0},
       [&] { return stream = reinterpret_cast<CUstream>(0x3000), CUDA_SUCCESS; });
  if (name == "trace") {
    // As buffers come: not in order; two nodes of one graph launch; one kernel twice.
    auto row = [](const char* kernel, unsigned correlation, std::uint64_t start, std::uint64_t node,
                  int block) {
      CUpti_ActivityKernel5 r{};
      r.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
      r.name = kernel;
      r.correlationId = correlation;
      r.start = start, r.end = start + 500;
      r.gridX = 4, r.gridY = 3, r.gridZ = 2;
      r.blockX = block, r.blockY = r.blockZ = 1;
      r.dynamicSharedMemory = 77;
      r.graphNodeId = node;
      r.streamId = 13;
      trace_kernel(r);
    };
    row("step", 30, 9000, 0, 64);
    row("_Z4tmplIfEvPT_d", 20, 5000, 0, 32);
    row("step", 40, 9900, 8, 64);
    row("step", 40, 9800, 7, 64);
    row("_Z4tmplIfEvPT_d", 10, 100, 0, 96);
    link().send_rows(false);
    if (std::getenv("KLAB_PROBE_CRASH") != nullptr) std::abort();
    link().send_rows(true);
    return 0;
  }
  if (name == "kernel_handle") {
    lazy = true;
    Launcher l = set_up();
    l.handle = &step_kernel;
    l.launch();
    return 0;
  }
  if (name == "no_code") {
    set_up().launch();
    return 0;
  }
  load();
  Launcher l = set_up();
  if (name == "per_thread" || name == "per_thread_busy") {
    default_stream_busy = name == "per_thread_busy";
    l.stream = CU_STREAM_PER_THREAD;
    l.launch();
  } else if (name == "plain" || name == "cubin_layout" || name == "many") {
    Launcher other = l;
    other.handle = &template_function;
    other.launch();
    for (int i = 0; i < (name == "many" ? 6 : 2); ++i) l.launch();
  } else if (name == "packed") {
    CUlaunchAttribute attributes[4] = {};
    attributes[0].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attributes[0].value.clusterDim = {2, 1, 1};
    attributes[1].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attributes[1].value.programmaticStreamSerializationAllowed = 1;
    attributes[2].id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
    attributes[2].value.priority = -3;
    attributes[3].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT;
    CUlaunchConfig config{};
    config.gridDimX = 4, config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = 128, config.blockDimY = config.blockDimZ = 1;
    config.sharedMemBytes = 60000;
    config.hStream = stream;
    config.attrs = attributes;
    config.numAttrs = 4;
    l.launch_packed(config);
  } else if (name == "busy") {
    never_idle = true;
    l.launch();
  } else if (name == "recorded") {
    // Recorded launches do not run: the first that runs is the third.
    l.stream = stream;
    recording.insert(stream);
    l.launch();
    l.launch();
    l.stream = nullptr;
    l.launch();
  } else if (name == "graph") {
    CUgraphExec exec = nullptr;
    call(CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiateWithFlags,
         cuGraphInstantiateWithFlags_params{&exec, nullptr, 0},
         [&] { return exec = reinterpret_cast<CUgraphExec>(0x5000), CUDA_SUCCESS; });
    call(CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch, cuGraphLaunch_params{exec, stream},
         [] { return CUDA_SUCCESS; });
  } else if (name == "ipc") {
    CUdeviceptr p = 0;
    call(CUPTI_DRIVER_TRACE_CBID_cuIpcOpenMemHandle_v2, cuIpcOpenMemHandle_v2_params{&p, {}, 0},
         [&] { return p = reinterpret_cast<CUdeviceptr>(take(4096, 1)), CUDA_SUCCESS; });
    l.s.p = reinterpret_cast<const void*>(p);
    l.launch();
  } else if (name == "unreadable") {
    // Registered, and not readable any more: looking at it must not kill the program.
    void* p = ::mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    call(CUPTI_DRIVER_TRACE_CBID_cuMemHostRegister_v2, cuMemHostRegister_v2_params{p, 1 << 20, 0},
         [] { return CUDA_SUCCESS; });
    ::mprotect(p, 1 << 20, PROT_NONE);
    l.s.p = p;
    l.launch();
  } else if (name == "mapped") {
    // Three maps in a row are one piece of memory to a pointer into the first; a fourth has no access.
    std::byte* base = take(4 << 20, 20);
    for (CUmemGenericAllocationHandle handle = 1; handle <= 4; ++handle) {
      CUmemAllocationProp prop{};
      prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
      CUmemGenericAllocationHandle made = handle;
      call(CUPTI_DRIVER_TRACE_CBID_cuMemCreate, cuMemCreate_params{&made, 1 << 20, &prop, 0},
           [] { return CUDA_SUCCESS; });
      call(CUPTI_DRIVER_TRACE_CBID_cuMemMap,
           cuMemMap_params{reinterpret_cast<CUdeviceptr>(base) + ((handle - 1) << 20), 1 << 20, 0, handle, 0},
           [] { return CUDA_SUCCESS; });
    }
    CUmemAccessDesc access{};
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    call(CUPTI_DRIVER_TRACE_CBID_cuMemSetAccess,
         cuMemSetAccess_params{reinterpret_cast<CUdeviceptr>(base), 3 << 20, &access, 1},
         [] { return CUDA_SUCCESS; });
    l.s.p = base + 5;
    l.launch();
  } else if (name == "textures") {
    Array array{};
    array.desc.Width = 10, array.desc.Height = 6, array.desc.Depth = 0;
    array.desc.Format = CU_AD_FORMAT_FLOAT;
    array.desc.NumChannels = 2;
    array.texels.resize(10 * 6 * 8);
    fill(array.texels.data(), array.texels.size(), 30);
    std::byte* linear = allocate(20000, 31);
    auto create = [](CUtexObject handle, const CUDA_RESOURCE_DESC& resource) {
      CUDA_TEXTURE_DESC sampling{};
      sampling.filterMode = CU_TR_FILTER_MODE_LINEAR;
      CUtexObject out = 0;
      call(CUPTI_DRIVER_TRACE_CBID_cuTexObjectCreate,
           cuTexObjectCreate_params{&out, &resource, &sampling, nullptr},
           [&] { return out = handle, CUDA_SUCCESS; });
    };
    CUDA_RESOURCE_DESC of_array{}, of_linear{};
    of_array.resType = CU_RESOURCE_TYPE_ARRAY;
    of_array.res.array.hArray = reinterpret_cast<CUarray>(&array);
    of_linear.resType = CU_RESOURCE_TYPE_LINEAR;
    of_linear.res.linear.devPtr = reinterpret_cast<CUdeviceptr>(linear) + 512;
    of_linear.res.linear.format = CU_AD_FORMAT_UNSIGNED_INT8;
    of_linear.res.linear.numChannels = 4;
    of_linear.res.linear.sizeInBytes = 4000;
    create(0x100000001, of_array);
    create(0x100000002, of_linear);
    create(0x100000003, of_linear);  // not used
    l.s.q[0] = reinterpret_cast<const void*>(0x100000001);
    const std::uint64_t second = 0x100000002;
    std::memcpy(variables["table"].data() + 8, &second, 8);
    l.launch();
  } else if (name == "overhead") {
    // What a launch costs that is not the wanted one, and how fast 1 GiB is read by a device that copies at
    // memcpy's speed.
    l.handle = &template_function;
    l.n = 0;
    l.launch();
    constexpr int kLaunches = 2'000'000;
    const std::uint64_t start = now_ns();
    for (int i = 0; i < kLaunches; ++i) l.launch();
    std::fprintf(stderr, "%.1f ns a launch\n", static_cast<double>(now_ns() - start) / kLaunches);
    l.handle = &step_function;
    l.s.p = allocate(1 << 30, 50);
    const std::uint64_t before = now_ns();
    l.launch();
    std::fprintf(stderr, "%.0f ms for 1 GiB before and after\n",
                 static_cast<double>(now_ns() - before) / 1e6);
  } else if (name == "fork") {
    const pid_t child = ::fork();
    if (child == 0) {
      l.launch();
      ::_exit(0);
    }
    ::waitpid(child, nullptr, 0);
    l.launch();
  } else if (name == "threads") {
    std::vector<std::thread> all;
    for (int i = 0; i < 4; ++i)
      all.emplace_back([l] {
        Launcher mine = l;
        mine.handle = &template_function;
        for (int k = 0; k < 200; ++k) {
          mine.launch();
          release(allocate(5000, 40));
        }
      });
    for (int i = 0; i < 50; ++i) l.launch();
    for (auto& t : all) t.join();
  } else {
    std::fprintf(stderr, "no such scenario\n");
    return 2;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  std::ifstream file(argv[2], std::ios::binary);
  cubin.assign(std::istreambuf_iterator<char>(file), {});
  const std::string name = argv[1];
  told_layout = name != "cubin_layout";
  fake_driver();
  begin_without_driver();
  const int code = scenario(name);
  send_counts();
  if (events != 0 || streams_made != 0 || pinned != 0 || contexts.size() != 1) {
    std::fprintf(stderr, "left behind: %d events, %d streams, %d pinned\n", events, streams_made, pinned);
    return 3;
  }
  return code;
}
