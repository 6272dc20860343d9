// SPDX-License-Identifier: Apache-2.0
// Graphs that the program instantiated and that hold a wanted kernel, and one node of such a graph run alone:
// what it depends on, then the node, then everything put back, so that the program's own launch finds what it
// would have found. Not here: what is read around the node (snapshot.h), when it is wanted (capture.cpp).
#pragma once
#include <cuda.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "shim/cuda/kernels.h"
#include "shim/cuda/launch.h"

namespace klab::shim {

struct GraphNode {
  CUgraphNode node = nullptr;  // of the copy
  CUgraphNodeType type{};
  Kernel* kernel = nullptr;             // when it is a wanted one
  std::vector<std::size_t> depends_on;  // positions in GraphCopy::nodes
};

/// A copy of what was instantiated, in an order in which it could run one node after the other.
struct GraphCopy {
  CUgraph graph = nullptr;
  std::vector<GraphNode> nodes;
  std::string refusal;  // why no node of it can be taken
  ~GraphCopy();
};

/// The program has made `exec` of `graph`, or given it new contents. Copied only when a wanted kernel is in
/// it.
void graph_instantiated(CUgraphExec exec, CUgraph graph);
/// A node of it was changed after it was made.
void graph_changed(CUgraphExec exec, const char* call);
void graph_forgotten(CUgraphExec exec);
/// Null: no wanted kernel is in it.
std::shared_ptr<GraphCopy> graph_copy(CUgraphExec exec);

/// The launch that kernel node `index` stands for. Its pointers live as long as the copy and this do.
struct NodeLaunch {
  Launch launch;
  std::vector<CUlaunchAttribute> attributes;
};
bool node_launch(const GraphCopy& copy, std::size_t index, NodeLaunch& out, std::string& why);

/// The memory of the program set aside, and what node `index` depends on run. The device is drained, its
/// context current and nothing else is launched while this lives.
class NodeStage {
 public:
  NodeStage() = default;
  NodeStage(const NodeStage&) = delete;
  ~NodeStage();
  /// Empty: the node can be launched now, into stream().
  std::string prepare(const GraphCopy& copy, std::size_t index, std::uint64_t deadline_ns);
  CUstream stream() const { return stream_; }
  /// Puts back all memory. Empty: done.
  std::string restore();

 private:
  struct Saved {
    std::uint64_t address = 0, size = 0;
    bool host = false;
    CUdeviceptr copy = 0;
    std::vector<unsigned char> bytes;  // host
  };
  std::string set_aside(const GraphCopy& copy, const std::vector<bool>& runs);
  std::string run(const GraphCopy& copy, const std::vector<bool>& runs);
  std::string wait();

  CUstream stream_ = nullptr;
  CUevent event_ = nullptr;
  std::vector<Saved> saved_;
  CUgraph part_ = nullptr;
  CUgraphExec exec_ = nullptr;
  std::uint64_t deadline_ns_ = 0;
  bool touched_ = false;  // something of ours may have written
};

void graphs_after_fork();

}  // namespace klab::shim
