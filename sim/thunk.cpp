// SPDX-License-Identifier: Apache-2.0
// The thunk's face: topology of one CPU and one simulated gfx1030, clocks, and memory. Queues are in queue.cpp, events in events.cpp.
// The runtime has assertions: caches, banks and tile configuration must not be empty.
#include <hsakmt.h>
#include <time.h>

#include <cstring>

#include "memory.h"
#include "queue.h"

using namespace sim;

namespace {

constexpr HSAKMT_STATUS kOk = HSAKMT_STATUS_SUCCESS;
constexpr u32 kCpuNode = 0, kGpuNode = 1, kNodes = 2;
constexpr u32 kGpuNodes[] = {kGpuNode};

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
  properties->NumNodes = kNodes;
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
  if (node >= kNodes) return HSAKMT_STATUS_INVALID_NODE_UNIT;
  *p = {};
  p->NumCaches = 2;
  // "Large BAR" is a link from the CPU to the GPU; the other way there is always one.
  p->NumIOLinks = node == kGpuNode || large_bar() ? 1 : 0;
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
  p->DrmRenderMinor = 128;
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
  p->LocationId = 0x300;
  p->LocalMemSize = kVideoMemory;
  p->MaxEngineClockMhzFCompute = 2000;
  p->Capability.ui32.DoorbellType = 2;  // 64 bits
  p->Capability.ui32.QueueSizePowerOfTwo = 1;
  p->FComputeIdLo = 0x80001000;
  p->NumSdmaEngines = 2;
  p->NumSdmaQueuesPerEngine = 8;
  p->NumCpQueues = 24;
  p->NumGws = kGlobalWaveSync;
  p->UniqueID = 0x51a;
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
  if (node != kGpuNode || banks != 3) return HSAKMT_STATUS_INVALID_PARAMETER;
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
    (node == kGpuNode ? p[i].CacheType.ui32.HSACU : p[i].CacheType.ui32.CPU) = 1;
  }
  return kOk;
}

HSAKMT_STATUS hsaKmtGetNodeIoLinkProperties(HSAuint32 node, HSAuint32 links, HsaIoLinkProperties* p) {
  std::memset(p, 0, links * sizeof *p);
  if (links == 0) return kOk;
  p->IoLinkType = HSA_IOLINKTYPE_PCIEXPRESS;
  p->NodeFrom = node;
  p->NodeTo = node == kCpuNode ? kGpuNode : kCpuNode;
  p->Weight = 20;
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
  if (alternate != nullptr) *alternate = reinterpret_cast<u64>(address);
  return memory().map(address);
}
HSAKMT_STATUS hsaKmtMapMemoryToGPUNodes(void* address, HSAuint64 size, HSAuint64* alternate, HsaMemMapFlags, HSAuint64, HSAuint32*) {
  return hsaKmtMapMemoryToGPU(address, size, alternate);
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
  info->CPUAddress = reinterpret_cast<void*>(a->address);
  info->GPUAddress = a->address;
  info->SizeInBytes = a->size;
  info->UserData = a->user;
  info->NMappedNodes = a->mapped != 0 ? 1 : 0;
  info->MappedNodes = kGpuNodes;
  info->RegisteredNodes = kGpuNodes;
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
