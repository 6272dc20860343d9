// SPDX-License-Identifier: Apache-2.0
// A dispatch list in columns, for pages of it: filtered, sorted, and as lanes over time. A million rows take
// some 50 MB and a page of them less than a millisecond once its order is known.
#pragma once
#include <compare>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "import/dispatch_list.h"

namespace klab::import {

enum class RowKey { sequence, begin_ns, gpu_ns, kernel, nth, grid, queue };
KLAB_JSON_ENUM(RowKey, sequence, begin_ns, gpu_ns, kernel, nth, grid, queue)

struct RowQuery {
  std::optional<std::uint32_t> kernel, queue;
  std::string text;                     // part of the kernel's name, in any case
  std::optional<double> from_ns, to_ns; // rows that run in this window, device time
  RowKey sort = RowKey::sequence;
  bool descending = false;
  auto operator<=>(const RowQuery&) const = default;
};

/// The window's time in `bins` equal parts; a part says how much of it its queue was at work, and whose was most of that.
struct Lane {
  std::uint32_t queue = 0;
  std::vector<double> busy;           // 0 to 1
  std::vector<std::int64_t> kernel;   // position in kernels(), -1: none
};

/// Thread: any, after construction.
class DispatchTable {
 public:
  explicit DispatchTable(DispatchList list);

  const DispatchList& head() const { return head_; }  // without its rows
  const std::vector<Kernel>& kernels() const { return head_.kernels; }
  const std::vector<Summary>& summaries() const { return summaries_; }
  std::size_t size() const { return rows_.size(); }
  Row row(std::uint32_t at) const;

  /// Positions of the rows that `query` wants, in its order; kept for the next page of the same query.
  std::shared_ptr<const std::vector<std::uint32_t>> select(const RowQuery& query) const;

  double first_ns() const { return first_ns_; }
  double last_ns() const { return last_ns_; }
  /// One lane for each queue that has timed dispatches, by its number.
  std::vector<Lane> lanes(double from_ns, double to_ns, std::size_t bins) const;
  /// Rows that run in the window, in order of their begin; none when more than `most` do.
  std::optional<std::vector<std::uint32_t>> spans(double from_ns, double to_ns, std::size_t most) const;

 private:
  struct Packed {
    double begin_ns, gpu_ns;
    std::uint64_t sequence, nth;
    std::uint32_t kernel, queue;
    std::uint32_t launch;  // position in launches_
  };
  struct Launch {
    bundle::Dim3 grid, block;
    std::uint32_t dynamic_shared_bytes;
    std::string call;
    auto operator<=>(const Launch&) const = default;
  };
  bool wanted(const Packed& row, const RowQuery& query, const std::vector<bool>& kernels) const;

  DispatchList head_;
  std::vector<Summary> summaries_;
  std::vector<Packed> rows_;
  std::vector<Launch> launches_;        // each once
  std::vector<std::uint32_t> by_begin_; // timed rows
  std::vector<std::uint32_t> queues_;   // that have timed rows
  double first_ns_ = 0, last_ns_ = 0, longest_ns_ = 0;

  mutable std::mutex mutex_;
  mutable std::vector<std::pair<RowQuery, std::shared_ptr<const std::vector<std::uint32_t>>>> kept_;  // newest last
};

}  // namespace klab::import
