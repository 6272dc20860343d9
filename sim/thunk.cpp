// SPDX-License-Identifier: Apache-2.0
// The thunk's face: topology of one CPU and simulated gfx1030s, clocks, and memory. Queues are in queue.cpp, events in events.cpp.
// The runtime has assertions: caches, banks and tile configuration must not be empty.
#include <hsakmt.h>
#include <time.h>

#include <array>
#include <cstring>

#include "memory.h"
#include "queue.h"

using namespace sim;

namespace {

constexpr HSAKMT_STATUS kOk = HSAKMT_STATUS_SUCCESS;

u32 node_count() { return kFirstGpu + gpu_count(); }

/// The nodes of a mask in a list that stays.
struct NodeList {
  u32 count = 0;
  const u32* nodes = nullptr;
};
NodeList list_of(u32 mask) {
  static const auto& lists = *[] {
    auto* all = new std::array<std::array<u32, kMostGpus + 1>, 1u << kMostGpus>{};  // the count comes first
    for (u32 m = 0; m < all->size(); ++m)
      for (u32 gpu = 0; gpu < kMostGpus; ++gpu)
        if ((m >> gpu & 1) != 0) (*all)[m][++(*all)[m][0]] = kFirstGpu + gpu;
    return all;
  }();
  const auto& list = lists[mask >> kFirstGpu & ((1u << gpu_count()) - 1)];
  return {list[0], list.data() + 1};
}

u32 mask_of(const HSAuint32* nodes, HSAuint64 count) {
  u32 mask = 0;
  for (HSAuint64 i = 0; i < count; ++i) mask |= is_gpu(nodes[i]) ? 1u << nodes[i] : 0;
  return mask;
}

template <std::size_t N, class Char>
void copy_name(Char (&to)[N], const char* from) {
  for (std::size_t i = 0; i + 1 < N && from[i] != 0; ++i) to[i] = static_cast<Char>(from[i]);
}

HSAKMT_STATUS not_here(const char* what) {
  log(1, "%s is not simulated", what);
  return HSAKMT_STATUS_NOT_SUPPORTED;
}

u64 nanoseconds() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC_RAW, &t);
  return static_cast<u64>(t.tv_sec) * 1'000'000'000ull + static_cast<u64>(t.tv_nsec);
}

}  // namespace

u64 sim::gpu_clock() { return nanoseconds() / 10; }  // 100 MHz

extern "C" {

HSAKMT_STATUS hsaKmtOpenKFD(void) { return kOk; }
HSAKMT_STATUS hsaKmtCloseKFD(void) { return kOk; }

HSAKMT_STATUS hsaKmtGetVersion(HsaVersionInfo* version) {
  *version = {.KernelInterfaceMajorVersion = 1, .KernelInterfaceMinorVersion = 8};  // 1.0 would have no events
  return kOk;
}

HSAKMT_STATUS hsaKmtAcquireSystemProperties(HsaSystemProperties* properties) {
  *properties = {};
  properties->NumNodes = node_count();
  return kOk;
}

HSAKMT_STATUS hsaKmtReleaseSystemProperties(void) { return kOk; }
HSAKMT_STATUS hsaKmtRuntimeEnable(void*, bool) { return HSAKMT_STATUS_NOT_SUPPORTED; }  // the simpler trap handler
HSAKMT_STATUS hsaKmtRuntimeDisable(void) { return HSAKMT_STATUS_NOT_SUPPORTED; }

HSAKMT_STATUS hsaKmtGetXNACKMode(HSAint32* mode) {
  *mode = 0;
  return kOk;
}
HSAKMT_STATUS hsaKmtSetXNACKMode(HSAint32 mode) { return mode == 0 ? kOk : HSAKMT_STATUS_NOT_SUPPORTED; }

HSAKMT_STATUS hsaKmtGetNodeProperties(HSAuint32 node, HsaNodeProperties* p) {
  if (node >= node_count()) return HSAKMT_STATUS_INVALID_NODE_UNIT;
  *p = {};
  p->NumCaches = 2;
  // "Large BAR" is a link from the CPU to the GPU; the other way there is always one.
  p->NumIOLinks = is_gpu(node) ? 1 : large_bar() ? gpu_count() : 0;
  if (node == kCpuNode) {
    copy_name(p->MarketingName, "Host of a simulated GPU");
    copy_name(p->AMDName, "cpu");
    p->NumMemoryBanks = 1;
    p->NumCPUCores = 2;
    p->MaxEngineClockMhzCCompute = 2000;
    return kOk;
  }
  copy_name(p->MarketingName, "Simulated gfx1030 (not a GPU)");
  copy_name(p->AMDName, "sienna_cichlid");
  p->NumMemoryBanks = 3;
  p->DrmRenderMinor = static_cast<HSAint32>(128 + node - kFirstGpu);
  p->NumFComputeCores = 2 * kComputeUnits;
  p->NumSIMDPerCU = 2;
  p->NumShaderBanks = p->NumArrays = 1;
  p->NumCUPerArray = kComputeUnits;
  p->MaxWavesPerSIMD = 16;
  p->LDSSizeInKB = 64;
  p->WaveFrontSize = 32;
  p->MaxSlotsScratchCU = 32;
  p->EngineId.ui32.Major = 10;
  p->EngineId.ui32.Minor = 3;
  p->EngineId.ui32.uCode = 100;
  p->uCodeEngineVersions.uCodeSDMA = 80;
  p->VendorId = 0x1002;
  p->DeviceId = 0x73bf;
  p->LocationId = 0x300 + 0x100 * (node - kFirstGpu);
  p->LocalMemSize = kVideoMemory;
  p->MaxEngineClockMhzFCompute = 2000;
  p->Capability.ui32.DoorbellType = 2;  // 64 bits
  p->Capability.ui32.QueueSizePowerOfTwo = 1;
  p->FComputeIdLo = 0x80001000;
  p->NumSdmaEngines = 2;
  p->NumSdmaQueuesPerEngine = 8;
  p->NumCpQueues = 24;
  p->NumGws = kGlobalWaveSync;
  p->UniqueID = 0x51a + node - kFirstGpu;
  p->VGPRSizePerCU = 256 << 10;
  p->SGPRSizePerCU = 16 << 10;
  return kOk;
}

HSAKMT_STATUS hsaKmtGetNodeMemoryProperties(HSAuint32 node, HSAuint32 banks, HsaMemoryProperties* p) {
  std::memset(p, 0, banks * sizeof *p);
  if (node == kCpuNode && banks == 1) {
    p[0].HeapType = HSA_HEAPTYPE_SYSTEM;
    p[0].SizeInBytes = 16ull << 30;
    p[0].Width = 64;
    p[0].MemoryClockMax = 1600;
    return kOk;
  }
  if (!is_gpu(node) || banks != 3) return HSAKMT_STATUS_INVALID_PARAMETER;
  p[0].HeapType = large_bar() ? HSA_HEAPTYPE_FRAME_BUFFER_PUBLIC : HSA_HEAPTYPE_FRAME_BUFFER_PRIVATE;
  p[0].SizeInBytes = kVideoMemory;
  p[0].Width = 256;
  p[0].MemoryClockMax = 1000;
  p[1].HeapType = HSA_HEAPTYPE_GPU_LDS;
  p[1].SizeInBytes = 64 << 10;
  p[1].VirtualBaseAddress = kLdsAperture;
  p[2].HeapType = HSA_HEAPTYPE_GPU_SCRATCH;
  p[2].SizeInBytes = 1ull << 32;
  p[2].VirtualBaseAddress = kScratchAperture;
  return kOk;
}

HSAKMT_STATUS hsaKmtGetNodeCacheProperties(HSAuint32 node, HSAuint32, HSAuint32 caches, HsaCacheProperties* p) {
  std::memset(p, 0, caches * sizeof *p);
  for (u32 i = 0; i < caches; ++i) {
    p[i].CacheLevel = i + 1;
    p[i].CacheSize = i == 0 ? 16 : 4096;  // KiB
    p[i].CacheLineSize = 64;
    p[i].CacheType.ui32.Data = 1;
    (is_gpu(node) ? p[i].CacheType.ui32.HSACU : p[i].CacheType.ui32.CPU) = 1;
  }
  return kOk;
}

// GPUs have no link to each other: none reaches another's memory.
HSAKMT_STATUS hsaKmtGetNodeIoLinkProperties(HSAuint32 node, HSAuint32 links, HsaIoLinkProperties* p) {
  std::memset(p, 0, links * sizeof *p);
  for (u32 i = 0; i < links; ++i) {
    p[i].IoLinkType = HSA_IOLINKTYPE_PCIEXPRESS;
    p[i].NodeFrom = node;
    p[i].NodeTo = node == kCpuNode ? kFirstGpu + i : kCpuNode;
    p[i].Weight = 20;
  }
  return kOk;
}

HSAKMT_STATUS hsaKmtGetTileConfig(HSAuint32, HsaGpuTileConfig* config) {
  config->GbAddrConfig = 0x444;
  config->NumBanks = 4;
  config->NumRanks = 1;
  return kOk;
}

HSAKMT_STATUS hsaKmtGetClockCounters(HSAuint32, HsaClockCounters* counters) {
  const u64 now = nanoseconds();
  counters->GPUClockCounter = now / 10;
  counters->CPUClockCounter = counters->SystemClockCounter = now;
  counters->SystemClockFrequencyHz = 1'000'000'000;
  return kOk;
}

HSAKMT_STATUS hsaKmtSetMemoryPolicy(HSAuint32, HSAuint32, HSAuint32, void*, HSAuint64) { return kOk; }
HSAKMT_STATUS hsaKmtSetTrapHandler(HSAuint32, void*, HSAuint64, void*, HSAuint64) { return kOk; }

HSAKMT_STATUS hsaKmtAllocMemory(HSAuint32 node, HSAuint64 size, HsaMemFlags flags, void** address) {
  return memory().allocate(node, size, flags, address);
}
HSAKMT_STATUS hsaKmtFreeMemory(void* address, HSAuint64) { return memory().release(address); }
HSAKMT_STATUS hsaKmtRegisterMemory(void* address, HSAuint64 size) { return memory().register_host(address, size, {}); }
HSAKMT_STATUS hsaKmtRegisterMemoryToNodes(void* address, HSAuint64 size, HSAuint64, HSAuint32*) {
  return memory().register_host(address, size, {});
}
HSAKMT_STATUS hsaKmtRegisterMemoryWithFlags(void* address, HSAuint64 size, HsaMemFlags flags) {
  return memory().register_host(address, size, flags);
}
HSAKMT_STATUS hsaKmtDeregisterMemory(void* address) { return memory().unregister_host(address); }
HSAKMT_STATUS hsaKmtMapMemoryToGPU(void* address, HSAuint64, HSAuint64* alternate) {
  return memory().map(address, 0, alternate);
}
HSAKMT_STATUS hsaKmtMapMemoryToGPUNodes(void* address, HSAuint64, HSAuint64* alternate, HsaMemMapFlags, HSAuint64 count, HSAuint32* nodes) {
  const u32 mask = mask_of(nodes, count);
  return mask == 0 ? HSAKMT_STATUS_INVALID_PARAMETER : memory().map(address, mask, alternate);
}
HSAKMT_STATUS hsaKmtUnmapMemoryToGPU(void* address) { return memory().unmap(address); }
HSAKMT_STATUS hsaKmtSetMemoryUserData(const void* address, void* user) { return memory().set_user(address, user); }

HSAKMT_STATUS hsaKmtQueryPointerInfo(const void* address, HsaPointerInfo* info) {
  *info = {};
  const auto a = memory().find(address);
  if (!a) {
    info->Type = HSA_POINTER_UNKNOWN;
    return HSAKMT_STATUS_ERROR;
  }
  info->Type = a->type;
  info->Node = a->node;
  info->MemFlags = a->flags;
  info->CPUAddress = a->cpu_address();
  info->GPUAddress = a->address;
  info->SizeInBytes = a->size;
  info->UserData = a->user;
  const NodeList mapped = list_of(a->mapped);
  info->NMappedNodes = mapped.count;
  info->MappedNodes = info->RegisteredNodes = mapped.nodes;
  return kOk;
}

HSAKMT_STATUS hsaKmtRegisterGraphicsHandleToNodes(HSAuint64, HsaGraphicsResourceInfo*, HSAuint64, HSAuint32*) { return not_here("graphics memory"); }
HSAKMT_STATUS hsaKmtRegisterSharedHandle(const HsaSharedMemoryHandle*, void**, HSAuint64*) { return not_here("memory of another process"); }
HSAKMT_STATUS hsaKmtRegisterSharedHandleToNodes(const HsaSharedMemoryHandle*, void**, HSAuint64*, HSAuint64, HSAuint32*) {
  return not_here("memory of another process");
}
HSAKMT_STATUS hsaKmtShareMemory(void*, HSAuint64, HsaSharedMemoryHandle*) { return not_here("memory of another process"); }
HSAKMT_STATUS hsaKmtSVMGetAttr(void*, HSAuint64, unsigned, HSA_SVM_ATTRIBUTE*) { return not_here("shared virtual memory"); }
HSAKMT_STATUS hsaKmtSVMSetAttr(void*, HSAuint64, unsigned, HSA_SVM_ATTRIBUTE*) { return not_here("shared virtual memory"); }

}  // extern "C"
