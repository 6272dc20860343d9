// SPDX-License-Identifier: Apache-2.0
#include "import/dispatch_table.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace klab::import {
namespace {

constexpr std::size_t kMostKept = 6;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool has_part(const std::string& name, const std::string& part) {
  return std::search(name.begin(), name.end(), part.begin(), part.end(),
                     [](char a, char b) { return lower(a) == lower(b); }) != name.end();
}

}  // namespace

DispatchTable::DispatchTable(DispatchList list) : summaries_(summarise(list)) {
  std::vector<Row> rows;
  rows.swap(list.rows);
  head_ = std::move(list);
  rows_.reserve(rows.size());
  std::map<Launch, std::uint32_t> launches;
  bool any = false;
  for (Row& r : rows) {
    Launch launch{r.grid, r.block, r.dynamic_shared_bytes, std::move(r.call)};
    auto found = launches.find(launch);
    if (found == launches.end()) {
      found = launches.emplace(launch, static_cast<std::uint32_t>(launches_.size())).first;
      launches_.push_back(std::move(launch));
    }
    if (r.gpu_ns > 0) {
      by_begin_.push_back(static_cast<std::uint32_t>(rows_.size()));
      if (queues_.empty() || queues_.back() != r.queue) queues_.push_back(r.queue);
      first_ns_ = any ? std::min(first_ns_, r.begin_ns) : r.begin_ns;
      last_ns_ = any ? std::max(last_ns_, r.begin_ns + r.gpu_ns) : r.begin_ns + r.gpu_ns;
      longest_ns_ = std::max(longest_ns_, r.gpu_ns);
      any = true;
    }
    rows_.push_back({r.begin_ns, r.gpu_ns, r.sequence, r.nth, r.kernel, r.queue, found->second});
  }
  std::sort(queues_.begin(), queues_.end());
  queues_.erase(std::unique(queues_.begin(), queues_.end()), queues_.end());
  std::stable_sort(by_begin_.begin(), by_begin_.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return rows_[a].begin_ns < rows_[b].begin_ns; });
}

Row DispatchTable::row(std::uint32_t at) const {
  const Packed& p = rows_[at];
  const Launch& l = launches_[p.launch];
  return {.kernel = p.kernel,
          .sequence = p.sequence,
          .nth = p.nth,
          .grid = l.grid,
          .call = l.call,
          .queue = p.queue,
          .begin_ns = p.begin_ns,
          .gpu_ns = p.gpu_ns,
          .block = l.block,
          .dynamic_shared_bytes = l.dynamic_shared_bytes};
}

bool DispatchTable::wanted(const Packed& row, const RowQuery& query, const std::vector<bool>& kernels) const {
  if (!kernels[row.kernel]) return false;
  if (query.queue && row.queue != *query.queue) return false;
  if (query.from_ns && row.begin_ns + row.gpu_ns < *query.from_ns) return false;
  return !query.to_ns || row.begin_ns <= *query.to_ns;
}

std::shared_ptr<const std::vector<std::uint32_t>> DispatchTable::select(const RowQuery& query) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [known, order] : kept_)
    if (known == query) return order;

  std::vector<bool> kernels(head_.kernels.size());
  for (std::size_t k = 0; k < kernels.size(); ++k)
    kernels[k] = (!query.kernel || *query.kernel == k) &&
                 (query.text.empty() || has_part(head_.kernels[k].name, query.text));
  auto order = std::make_shared<std::vector<std::uint32_t>>();
  for (std::uint32_t i = 0; i < rows_.size(); ++i)
    if (wanted(rows_[i], query, kernels)) order->push_back(i);

  // Kernels by name, not by the order in which they were met.
  std::vector<std::uint32_t> rank(head_.kernels.size());
  if (query.sort == RowKey::kernel) {
    std::vector<std::uint32_t> names(rank.size());
    std::iota(names.begin(), names.end(), 0u);
    std::stable_sort(names.begin(), names.end(), [&](std::uint32_t a, std::uint32_t b) {
      return head_.kernels[a].name < head_.kernels[b].name;
    });
    for (std::uint32_t i = 0; i < names.size(); ++i) rank[names[i]] = i;
  }
  const auto blocks = [&](const Packed& p) {
    const bundle::Dim3& g = launches_[p.launch].grid;
    return static_cast<double>(g[0]) * g[1] * g[2];
  };
  const auto value = [&](std::uint32_t at) -> double {
    const Packed& p = rows_[at];
    switch (query.sort) {
      case RowKey::begin_ns: return p.begin_ns;
      case RowKey::gpu_ns: return p.gpu_ns;
      case RowKey::kernel: return rank[p.kernel];
      case RowKey::nth: return static_cast<double>(p.nth);
      case RowKey::grid: return blocks(p);
      case RowKey::queue: return p.queue;
      case RowKey::sequence: break;
    }
    return static_cast<double>(p.sequence);
  };
  std::vector<std::pair<double, std::uint32_t>> keyed;
  keyed.reserve(order->size());
  for (const std::uint32_t at : *order) keyed.emplace_back(value(at), at);
  // Equal ones stay in the program's order, both ways round.
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    return query.descending ? a.first > b.first : a.first < b.first;
  });
  for (std::size_t i = 0; i < keyed.size(); ++i) (*order)[i] = keyed[i].second;
  if (kept_.size() >= kMostKept) kept_.erase(kept_.begin());
  kept_.emplace_back(query, order);
  return order;
}

std::optional<std::vector<std::uint32_t>> DispatchTable::spans(double from_ns, double to_ns, std::size_t most) const {
  // What began before the window by more than the longest dispatch takes cannot reach into it.
  auto it = std::lower_bound(by_begin_.begin(), by_begin_.end(), from_ns - longest_ns_,
                             [&](std::uint32_t at, double ns) { return rows_[at].begin_ns < ns; });
  std::vector<std::uint32_t> found;
  for (; it != by_begin_.end() && rows_[*it].begin_ns <= to_ns; ++it) {
    if (rows_[*it].begin_ns + rows_[*it].gpu_ns < from_ns) continue;
    if (found.size() == most) return std::nullopt;
    found.push_back(*it);
  }
  return found;
}

std::vector<Lane> DispatchTable::lanes(double from_ns, double to_ns, std::size_t bins) const {
  std::map<std::uint32_t, std::vector<std::map<std::uint32_t, double>>> work;  // queue, bin, kernel: ns
  const double width = (to_ns - from_ns) / static_cast<double>(bins);
  if (!(width > 0)) return {};
  for (const std::uint32_t queue : queues_) work[queue];
  auto it = std::lower_bound(by_begin_.begin(), by_begin_.end(), from_ns - longest_ns_,
                             [&](std::uint32_t at, double ns) { return rows_[at].begin_ns < ns; });
  for (; it != by_begin_.end() && rows_[*it].begin_ns < to_ns; ++it) {
    const Packed& p = rows_[*it];
    const double begin = std::max(p.begin_ns, from_ns), end = std::min(p.begin_ns + p.gpu_ns, to_ns);
    if (end <= begin) continue;
    auto& lane = work[p.queue];
    lane.resize(bins);
    auto bin = std::min(bins - 1, static_cast<std::size_t>((begin - from_ns) / width));
    for (; bin < bins; ++bin) {
      const double left = from_ns + width * static_cast<double>(bin), right = left + width;
      const double part = std::min(end, right) - std::max(begin, left);
      if (part > 0) lane[bin][p.kernel] += part;
      if (end <= right) break;
    }
  }
  std::vector<Lane> lanes;
  for (auto& [queue, parts] : work) {
    parts.resize(bins);
    Lane lane{.queue = queue, .busy = std::vector<double>(bins), .kernel = std::vector<std::int64_t>(bins, -1)};
    for (std::size_t b = 0; b < bins; ++b) {
      double most = 0;
      for (const auto& [kernel, ns] : parts[b]) {
        lane.busy[b] += ns / width;
        if (ns > most) most = ns, lane.kernel[b] = kernel;
      }
      lane.busy[b] = std::min(lane.busy[b], 1.0);
    }
    lanes.push_back(std::move(lane));
  }
  return lanes;
}

}  // namespace klab::import
