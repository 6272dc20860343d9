// SPDX-License-Identifier: Apache-2.0
#include "shim/cuda/graph.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <new>
#include <unordered_map>

#include "shim/common/link.h"
#include "shim/cuda/drain.h"
#include "shim/cuda/driver.h"
#include "shim/cuda/snapshot.h"

namespace klab::shim {
namespace {

constexpr std::size_t kMaxNodes = 1u << 16;
constexpr std::size_t kSpareBytes = 256u << 20;  // of device memory, left to the program

struct Graphs {
  std::mutex lock;
  std::unordered_map<CUgraphExec, std::shared_ptr<GraphCopy>> copies;
};
Graphs& graphs() {
  static Graphs* const the = new Graphs;
  return *the;
}

bool can_look() {
  const Driver& d = driver();
  return d.GraphGetNodes && d.GraphNodeGetType && d.GraphKernelNodeGetParams;
}
bool can_take_apart() {
  const Driver& d = driver();
  return d.GraphClone && d.GraphDestroy && d.GraphDestroyNode && d.GraphNodeFindInClone &&
         d.GraphNodeGetDependencies && d.GraphInstantiate && d.GraphExecDestroy && d.GraphLaunch &&
         d.GraphKernelNodeGetAttribute && d.LaunchKernelEx && d.MemAlloc && d.MemFree && d.MemcpyDtoDAsync &&
         d.MemGetInfo;
}

// What may run twice without anybody noticing, as long as memory is put back.
const char* cannot_run_twice(CUgraphNodeType type) {
  switch (static_cast<int>(type)) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
    case CU_GRAPH_NODE_TYPE_MEMCPY:
    case CU_GRAPH_NODE_TYPE_MEMSET:
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return nullptr;
    case CU_GRAPH_NODE_TYPE_HOST:
      return "a host function";
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return "a child graph";
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return "an event";
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
      return "an external semaphore";
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return "memory that the graph allocates";
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return "a batch of memory operations";
    case 13:  // CU_GRAPH_NODE_TYPE_CONDITIONAL
      return "a conditional node";
    default:
      return "a node of a kind that is not known here";
  }
}

CUfunction function_of(const CUDA_KERNEL_NODE_PARAMS& p) {
  return p.func != nullptr ? p.func : reinterpret_cast<CUfunction>(p.kern);
}

// Each node after all that it depends on, else in the driver's order.
std::string in_order(const std::vector<CUgraphNode>& nodes, GraphCopy& copy) {
  const Driver& d = driver();
  std::unordered_map<CUgraphNode, std::size_t> at;
  for (std::size_t i = 0; i < nodes.size(); ++i) at[nodes[i]] = i;
  std::vector<std::vector<std::size_t>> needs(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    std::size_t count = 0;
    CUresult r = d.GraphNodeGetDependencies(nodes[i], nullptr, nullptr, &count);
    std::vector<CUgraphNode> before(count);
    std::vector<CUgraphEdgeData> edges(count);
    if (r == CUDA_SUCCESS && count != 0)
      r = d.GraphNodeGetDependencies(nodes[i], before.data(), edges.data(), &count);
    if (r != CUDA_SUCCESS) return failed("cuGraphNodeGetDependencies", r);
    for (const CUgraphNode b : before) {
      const auto it = at.find(b);
      if (it == at.end()) return "a node depends on one that is not in its graph";
      needs[i].push_back(it->second);
    }
  }
  std::vector<std::size_t> place(nodes.size(), nodes.size());
  while (copy.nodes.size() < nodes.size()) {
    const std::size_t before = copy.nodes.size();
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (place[i] != nodes.size() || !std::all_of(needs[i].begin(), needs[i].end(),
                                                   [&](std::size_t n) { return place[n] != nodes.size(); }))
        continue;
      place[i] = copy.nodes.size();
      GraphNode node;
      node.node = nodes[i];
      for (const std::size_t n : needs[i]) node.depends_on.push_back(place[n]);
      copy.nodes.push_back(std::move(node));
    }
    if (copy.nodes.size() == before) return "its nodes depend on each other in a circle";
  }
  return {};
}

std::vector<CUgraphNode> nodes_of(CUgraph graph) {
  const Driver& d = driver();
  std::size_t count = 0;
  if (d.GraphGetNodes(graph, nullptr, &count) != CUDA_SUCCESS || count > kMaxNodes) return {};
  std::vector<CUgraphNode> nodes(count);
  if (count != 0 && d.GraphGetNodes(graph, nodes.data(), &count) != CUDA_SUCCESS) return {};
  return nodes;
}

// Wanted kernels of a graph, those in child graphs too: what is in them is refused by name rather than
// missed.
void collect_wanted(CUgraph graph, int depth, std::vector<GraphNode>& out) {
  const Driver& d = driver();
  for (const CUgraphNode node : nodes_of(graph)) {
    CUgraphNodeType type{};
    if (d.GraphNodeGetType(node, &type) != CUDA_SUCCESS) continue;
    if (type == CU_GRAPH_NODE_TYPE_KERNEL) {
      CUDA_KERNEL_NODE_PARAMS params{};
      if (d.GraphKernelNodeGetParams(node, &params) != CUDA_SUCCESS || function_of(params) == nullptr)
        continue;
      if (Kernel* k = wanted_kernel(function_of(params), nullptr); k != nullptr) {
        GraphNode found;
        found.kernel = k;
        out.push_back(found);
      }
    } else if (type == CU_GRAPH_NODE_TYPE_GRAPH && depth < 16 && d.GraphChildGraphNodeGetGraph != nullptr) {
      CUgraph child = nullptr;
      if (d.GraphChildGraphNodeGetGraph(node, &child) == CUDA_SUCCESS && child != nullptr)
        collect_wanted(child, depth + 1, out);
    }
  }
}

// Fills a copy; a refusal leaves the `wanted` kernels in it, so that their executions are counted.
void examine(CUgraph original, const std::vector<GraphNode>& wanted, GraphCopy& copy) {
  const Driver& d = driver();
  auto refuse = [&](std::string why) {
    copy.refusal = std::move(why);
    copy.nodes = wanted;
  };
  if (!can_take_apart())
    return refuse(
        "it runs as a node of a CUDA graph, which this driver cannot take apart (CUDA 12.4 is needed)");
  if (const CUresult r = d.GraphClone(&copy.graph, original); r != CUDA_SUCCESS) {
    copy.graph = nullptr;
    return refuse("it runs as a node of a CUDA graph that cannot be copied (" + failed("cuGraphClone", r) +
                  ")");
  }
  if (std::string why = in_order(nodes_of(copy.graph), copy); !why.empty())
    return refuse("it runs as a node of a CUDA graph that cannot be taken apart: " + why);
  for (GraphNode& n : copy.nodes) {
    if (const CUresult r = d.GraphNodeGetType(n.node, &n.type); r != CUDA_SUCCESS)
      return refuse("it runs as a node of a CUDA graph that cannot be examined: " +
                    failed("cuGraphNodeGetType", r));
    if (n.type != CU_GRAPH_NODE_TYPE_KERNEL) continue;
    CUDA_KERNEL_NODE_PARAMS params{};
    if (const CUresult r = d.GraphKernelNodeGetParams(n.node, &params); r != CUDA_SUCCESS)
      return refuse("it runs as a node of a CUDA graph that cannot be examined: " +
                    failed("cuGraphKernelNodeGetParams", r));
    if (function_of(params) != nullptr) n.kernel = wanted_kernel(function_of(params), nullptr);
  }
  // A wanted kernel that is in no node of this level is in a child graph.
  if (std::none_of(copy.nodes.begin(), copy.nodes.end(),
                   [](const GraphNode& n) { return n.kernel != nullptr; }))
    return refuse("it runs as a node of a child graph of a CUDA graph");
}

}  // namespace

GraphCopy::~GraphCopy() {
  if (graph != nullptr) driver().GraphDestroy(graph);
}

void graph_instantiated(CUgraphExec exec, CUgraph graph) {
  if (exec == nullptr || !can_look()) return;
  Inside guard;
  const Relaxed relaxed;
  std::shared_ptr<GraphCopy> copy;
  std::vector<GraphNode> wanted;
  collect_wanted(graph, 0, wanted);
  if (!wanted.empty()) {
    copy = std::make_shared<GraphCopy>();
    examine(graph, wanted, *copy);
  }
  std::shared_ptr<GraphCopy> old;  // destroyed after the lock
  std::lock_guard hold(graphs().lock);
  auto& slot = graphs().copies[exec];
  old = std::move(slot);
  slot = std::move(copy);
  if (!slot) graphs().copies.erase(exec);
}

void graph_changed(CUgraphExec exec, const char* call) {
  std::lock_guard hold(graphs().lock);
  const auto it = graphs().copies.find(exec);
  if (it == graphs().copies.end() || !it->second->refusal.empty()) return;
  it->second->refusal =
      std::string("it runs as a node of a CUDA graph that was changed after it was instantiated (") + call +
      ")";
}

void graph_forgotten(CUgraphExec exec) {
  Inside guard;
  std::shared_ptr<GraphCopy> old;
  std::lock_guard hold(graphs().lock);
  const auto it = graphs().copies.find(exec);
  if (it == graphs().copies.end()) return;
  old = std::move(it->second);
  graphs().copies.erase(it);
}

std::shared_ptr<GraphCopy> graph_copy(CUgraphExec exec) {
  std::lock_guard hold(graphs().lock);
  const auto it = graphs().copies.find(exec);
  return it == graphs().copies.end() ? nullptr : it->second;
}

bool node_launch(const GraphCopy& copy, std::size_t index, NodeLaunch& out, std::string& why) {
  const Driver& d = driver();
  CUDA_KERNEL_NODE_PARAMS p{};
  if (const CUresult r = d.GraphKernelNodeGetParams(copy.nodes[index].node, &p); r != CUDA_SUCCESS) {
    why = failed("cuGraphKernelNodeGetParams", r);
    return false;
  }
  Launch& l = out.launch;
  l.call = KLAB_CALL_CUDA_GRAPH;
  l.function = function_of(p);
  l.grid[0] = p.gridDimX, l.grid[1] = p.gridDimY, l.grid[2] = p.gridDimZ;
  l.block[0] = p.blockDimX, l.block[1] = p.blockDimY, l.block[2] = p.blockDimZ;
  l.dynamic_shared = p.sharedMemBytes;
  l.parameters = p.kernelParams;
  l.extra = p.extra;
  constexpr int kAttributes[] = {CU_LAUNCH_ATTRIBUTE_COOPERATIVE, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                                 CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE,
                                 14 /* CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT */};
  for (const int id : kAttributes) {
    CUlaunchAttribute a{};
    a.id = static_cast<CUlaunchAttributeID>(id);
    if (d.GraphKernelNodeGetAttribute(copy.nodes[index].node, a.id, &a.value) != CUDA_SUCCESS) continue;
    unsigned first = 0;
    std::memcpy(&first, &a.value, sizeof first);
    const bool set =
        id == 14 ? static_cast<int>(first) >= 0 : first != 0;  // a carveout of -1 is the driver's choice
    if (set) out.attributes.push_back(a);
  }
  l.attributes = out.attributes.data();
  l.attribute_count = static_cast<std::uint32_t>(out.attributes.size());
  return true;
}

NodeStage::~NodeStage() {
  const Driver& d = driver();
  for (const Saved& s : saved_)
    if (s.copy != 0) d.MemFree(s.copy);
  if (exec_ != nullptr) d.GraphExecDestroy(exec_);
  if (part_ != nullptr) d.GraphDestroy(part_);
  if (event_ != nullptr) d.EventDestroy(event_);
  if (stream_ != nullptr) d.StreamDestroy(stream_);
}

std::string NodeStage::prepare(const GraphCopy& copy, std::size_t index, std::uint64_t deadline_ns) {
  const Driver& d = driver();
  deadline_ns_ = deadline_ns;
  std::vector<bool> runs(copy.nodes.size(), false);
  runs[index] = true;
  for (std::size_t i = index + 1; i-- > 0;)
    if (runs[i])
      for (const std::size_t n : copy.nodes[i].depends_on) runs[n] = true;
  for (std::size_t i = 0; i < runs.size(); ++i)
    if (runs[i])
      if (const char* what = cannot_run_twice(copy.nodes[i].type); what != nullptr)
        return std::string("it runs as a node of a CUDA graph, after ") + what +
               ", which cannot run a second time";
  if (const CUresult r = d.StreamCreate(&stream_, CU_STREAM_NON_BLOCKING); r != CUDA_SUCCESS) {
    stream_ = nullptr;
    return failed("cuStreamCreate", r);
  }
  if (const CUresult r = d.EventCreate(&event_, CU_EVENT_DISABLE_TIMING); r != CUDA_SUCCESS) {
    event_ = nullptr;
    return failed("cuEventCreate", r);
  }
  if (std::string why = set_aside(copy, runs); !why.empty())
    return "it runs as a node of a CUDA graph, and the program's memory cannot be set aside: " + why;
  runs[index] = false;
  if (std::string why = run(copy, runs); !why.empty())
    return "it runs as a node of a CUDA graph, and what it depends on did not run: " + why;
  return {};
}

std::string NodeStage::set_aside(const GraphCopy& copy, const std::vector<bool>& runs) {
  const Driver& d = driver();
  std::uint64_t device_bytes = 0;
  auto add = [&](std::uint64_t address, std::uint64_t size, bool host) {
    Saved s;
    s.address = address, s.size = size, s.host = host;
    if (!host) device_bytes += size;
    saved_.push_back(std::move(s));
  };
  for (const Range& r : tracker().ranges())
    if (r.refusal == nullptr) add(r.begin, r.size, r.memory == KLAB_MEMORY_PINNED_HOST && !r.mapped);
  std::vector<CUmodule> modules;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i] || copy.nodes[i].type != CU_GRAPH_NODE_TYPE_KERNEL) continue;
    NodeLaunch launch;
    std::string why;
    if (!node_launch(copy, i, launch, why)) return why;
    const std::string name = mangled_name(launch.launch.function, nullptr);
    if (name.empty()) return "one of its kernels has no name";
    const Resolved resolved = resolve(launch.launch.function, kernel_named(name), why);
    if (!why.empty()) return name + ": " + why;
    if (resolved.module == nullptr ||
        std::find(modules.begin(), modules.end(), resolved.module) != modules.end())
      continue;
    modules.push_back(resolved.module);
    for (const Variable& v : Cubin(resolved.code->bytes).variables()) {
      CUdeviceptr address = 0;
      std::size_t size = 0;
      if (!v.constant &&
          d.ModuleGetGlobal(&address, &size, resolved.module, v.name.c_str()) == CUDA_SUCCESS && size != 0)
        add(address, size, false);
    }
  }
  std::size_t free_bytes = 0, all_bytes = 0;
  if (const CUresult r = d.MemGetInfo(&free_bytes, &all_bytes); r != CUDA_SUCCESS)
    return failed("cuMemGetInfo", r);
  if (device_bytes + kSpareBytes > free_bytes)
    return "it has " + std::to_string(device_bytes >> 20) + " MiB, and " + std::to_string(free_bytes >> 20) +
           " MiB of the device are free";
  for (Saved& s : saved_) {
    if (s.host) {
      s.bytes.resize(s.size);
      std::memcpy(s.bytes.data(), reinterpret_cast<const void*>(s.address), s.size);
      continue;
    }
    if (const CUresult r = d.MemAlloc(&s.copy, s.size); r != CUDA_SUCCESS) {
      s.copy = 0;
      return failed("cuMemAlloc", r);
    }
    if (const CUresult r = d.MemcpyDtoDAsync(s.copy, s.address, s.size, stream_); r != CUDA_SUCCESS)
      return failed("cuMemcpyDtoDAsync", r);
  }
  return wait();
}

std::string NodeStage::run(const GraphCopy& copy, const std::vector<bool>& runs) {
  const Driver& d = driver();
  touched_ = true;
  if (std::find(runs.begin(), runs.end(), true) == runs.end()) return {};
  if (const CUresult r = d.GraphClone(&part_, copy.graph); r != CUDA_SUCCESS) {
    part_ = nullptr;
    return failed("cuGraphClone", r);
  }
  for (std::size_t i = runs.size(); i-- > 0;) {
    if (runs[i]) continue;
    CUgraphNode node = nullptr;
    CUresult r = d.GraphNodeFindInClone(&node, copy.nodes[i].node, part_);
    if (r == CUDA_SUCCESS) r = d.GraphDestroyNode(node);
    if (r != CUDA_SUCCESS) return failed("cuGraphDestroyNode", r);
  }
  if (const CUresult r = d.GraphInstantiate(&exec_, part_, 0); r != CUDA_SUCCESS) {
    exec_ = nullptr;
    return failed("cuGraphInstantiate", r);
  }
  if (const CUresult r = d.GraphLaunch(exec_, stream_); r != CUDA_SUCCESS) return failed("cuGraphLaunch", r);
  return wait();
}

std::string NodeStage::wait() {
  if (const CUresult r = driver().EventRecord(event_, stream_); r != CUDA_SUCCESS)
    return failed("cuEventRecord", r);
  return Streams::wait(event_, deadline_ns_);
}

std::string NodeStage::restore() {
  const Driver& d = driver();
  if (!touched_) return {};
  touched_ = false;
  for (const Saved& s : saved_) {
    if (s.host)
      std::memcpy(reinterpret_cast<void*>(s.address), s.bytes.data(), s.size);
    else if (const CUresult r = d.MemcpyDtoDAsync(s.address, s.copy, s.size, stream_); r != CUDA_SUCCESS)
      return failed("cuMemcpyDtoDAsync", r);
  }
  return wait();
}

void graphs_after_fork() { new (&graphs().lock) std::mutex; }

}  // namespace klab::shim
