// SPDX-License-Identifier: Apache-2.0
#include "ops/dispatches.h"

#include <sys/stat.h>

#include <algorithm>
#include <mutex>
#include <numeric>

#include <fmt/format.h>

#include "import/dispatch_table.h"
#include "ops/fields.h"
#include "ops/session_files.h"

namespace klab::ops {
namespace {

using import::DispatchTable;

constexpr std::int64_t kMostItems = 500, kMostBins = 2000;
constexpr std::size_t kMostSpans = 2000, kMostTables = 2;

/// Tables of the files that were read last. A file that was written anew is another one.
class Tables {
 public:
  Result<std::shared_ptr<const DispatchTable>> get(const fs::path& file) {
    struct stat st {};
    if (::stat(file.c_str(), &st) != 0) return fail_errno(errno, file.string());
    const std::string key = fmt::format("{}\n{}.{}\n{}\n{}", file.string(), st.st_mtim.tv_sec, st.st_mtim.tv_nsec,
                                        st.st_size, st.st_ino);
    // Held while one is read: who wants the same list meanwhile waits for it in place of reading it again.
    const std::lock_guard lock(mutex_);
    for (auto it = kept_.begin(); it != kept_.end(); ++it)
      if (it->first == key) {
        std::rotate(it, it + 1, kept_.end());
        return kept_.back().second;
      }
    KLAB_TRY(import::DispatchList list, import::read_list(file));
    if (kept_.size() >= kMostTables) kept_.erase(kept_.begin());
    kept_.emplace_back(key, std::make_shared<const DispatchTable>(std::move(list)));
    return kept_.back().second;
  }

 private:
  std::mutex mutex_;
  std::vector<std::pair<std::string, std::shared_ptr<const DispatchTable>>> kept_;  // newest last
};

struct Which {
  std::string session, list;
  std::int64_t offset = 0, limit = 100;

  Fields& take(Fields& fields) {
    return fields.take("session", session).take("list", list).take("offset", offset).take("limit", limit);
  }

  Result<std::shared_ptr<const DispatchTable>> table(Lab& lab) const {
    static Tables tables;
    if (session.empty() == list.empty())
      return fail(ErrorCode::usage, "give session or list, one of them",
                  "session: its last trace; list: the path of a dispatch list");
    if (offset < 0 || limit < 1 || limit > kMostItems)
      return fail(ErrorCode::usage, fmt::format("offset is 0 or more, limit from 1 to {}", kMostItems));
    if (!list.empty()) {
      if (list[0] != '/')
        return fail(ErrorCode::usage, list.substr(0, 300) + " is not an absolute path", "paths of a verb are absolute");
      return tables.get(list);
    }
    KLAB_TRY(session::Store * store, lab.store());
    KLAB_TRY(const session::SessionRow row, store->sessions().get(session));
    const fs::path file = session_folder(lab.home(), row.id) / "dispatches.jsonl";
    std::error_code ec;
    if (!fs::exists(file, ec))
      return fail(ErrorCode::not_found, "the session's program was not traced yet",
                  "session.trace lists its dispatches");
    return tables.get(file);
  }

  /// Of `size` items those of this page.
  std::pair<std::size_t, std::size_t> page(std::size_t size) const {
    const std::size_t begin = std::min(size, static_cast<std::size_t>(offset));
    return {begin, std::min(size, begin + static_cast<std::size_t>(limit))};
  }
};

enum class KernelKey { total_ns, calls, median_ns, max_ns, name };
KLAB_JSON_ENUM(KernelKey, total_ns, calls, median_ns, max_ns, name)

}  // namespace

Result<Json> dispatches_kernels(Lab& lab, const Json& arguments) {
  Which which;
  std::string text;
  KernelKey sort = KernelKey::total_ns;
  std::optional<bool> descending;
  Fields fields(arguments, "dispatches.kernels");
  KLAB_TRY_VOID(which.take(fields).take("text", text).take("sort", sort).take("descending", descending).done());
  KLAB_TRY(const auto table, which.table(lab));
  const auto lower = [](std::string s) {
    std::transform(s.begin(), s.end(), s.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return s;
  };
  std::vector<const import::Summary*> found;
  for (const import::Summary& s : table->summaries())
    if (text.empty() || lower(table->kernels()[s.kernel].name).find(lower(text)) != std::string::npos)
      found.push_back(&s);
  const bool down = descending.value_or(sort != KernelKey::name);
  const auto less = [&](const import::Summary* a, const import::Summary* b) {
    switch (sort) {
      case KernelKey::calls: return a->calls < b->calls;
      case KernelKey::median_ns: return a->median_ns < b->median_ns;
      case KernelKey::max_ns: return a->max_ns < b->max_ns;
      case KernelKey::name: return table->kernels()[a->kernel].name < table->kernels()[b->kernel].name;
      case KernelKey::total_ns: break;
    }
    return a->total_ns < b->total_ns;
  };
  std::stable_sort(found.begin(), found.end(), [&](auto* a, auto* b) { return down ? less(b, a) : less(a, b); });
  Json items = Json::array();
  const auto [begin, end] = which.page(found.size());
  for (std::size_t i = begin; i < end; ++i) {
    const import::Summary& s = *found[i];
    const import::Kernel& k = table->kernels()[s.kernel];
    items.push_back({{"kernel", s.kernel},
                     {"name", k.name},
                     {"entry_point", k.entry_point},
                     {"hash", k.hash},
                     {"block", k.block},
                     {"refusal", k.refusal},
                     {"calls", s.calls},
                     {"total_ns", s.total_ns},
                     {"median_ns", s.median_ns},
                     {"min_ns", s.min_ns},
                     {"max_ns", s.max_ns},
                     {"share", s.share}});
  }
  const import::DispatchList& head = table->head();
  return Json{{"total", found.size()},       {"items", std::move(items)},   {"dispatches", table->size()},
              {"source", head.source},       {"device", head.device},       {"program", head.program},
              {"exit_code", head.exit_code}, {"warnings", head.warnings}};
}

Result<Json> dispatches_rows(Lab& lab, const Json& arguments) {
  Which which;
  import::RowQuery query;
  Fields fields(arguments, "dispatches.rows");
  KLAB_TRY_VOID(which.take(fields)
                    .take("kernel", query.kernel)
                    .take("queue", query.queue)
                    .take("text", query.text)
                    .take("from_ns", query.from_ns)
                    .take("to_ns", query.to_ns)
                    .take("sort", query.sort)
                    .take("descending", query.descending)
                    .done());
  KLAB_TRY(const auto table, which.table(lab));
  const auto order = table->select(query);
  Json items = Json::array();
  const auto [begin, end] = which.page(order->size());
  for (std::size_t i = begin; i < end; ++i) {
    const import::Row r = table->row((*order)[i]);
    const import::Kernel& k = table->kernels()[r.kernel];
    items.push_back({{"kernel", r.kernel},
                     {"name", k.name},
                     {"sequence", r.sequence},
                     {"nth", r.nth},
                     {"grid", r.grid},
                     {"block", r.block[0] != 0 ? r.block : k.block},
                     {"queue", r.queue},
                     {"begin_ns", r.begin_ns},
                     {"gpu_ns", r.gpu_ns},
                     {"call", r.call},
                     {"refusal", k.refusal}});
  }
  return Json{{"total", order->size()}, {"items", std::move(items)}};
}

Result<Json> dispatches_timeline(Lab& lab, const Json& arguments) {
  Which which;
  std::optional<double> from, to;
  std::int64_t bins = 500;
  Fields fields(arguments, "dispatches.timeline");
  KLAB_TRY_VOID(which.take(fields).take("from_ns", from).take("to_ns", to).take("bins", bins).done());
  if (bins < 1 || bins > kMostBins)
    return fail(ErrorCode::usage, fmt::format("dispatches.timeline: bins is from 1 to {}", kMostBins));
  KLAB_TRY(const auto table, which.table(lab));
  const double from_ns = from.value_or(table->first_ns()), to_ns = to.value_or(table->last_ns());
  if (!(from_ns <= to_ns)) return fail(ErrorCode::usage, "dispatches.timeline: from_ns is after to_ns");
  Json queues = Json::array();
  for (const import::Lane& lane : table->lanes(from_ns, to_ns, static_cast<std::size_t>(bins))) {
    Json parts = Json::array();
    for (std::size_t b = 0; b < lane.busy.size(); ++b) parts.push_back({lane.busy[b], lane.kernel[b]});
    queues.push_back({{"queue", lane.queue}, {"bins", std::move(parts)}});
  }
  Json answer{{"first_ns", table->first_ns()}, {"last_ns", table->last_ns()}, {"from_ns", from_ns},
              {"to_ns", to_ns},                {"queues", std::move(queues)}};
  if (const auto found = table->spans(from_ns, to_ns, kMostSpans)) {
    Json spans = Json::array();
    for (const std::uint32_t at : *found) {
      const import::Row r = table->row(at);
      spans.push_back({r.queue, r.kernel, r.sequence, r.begin_ns, r.gpu_ns});
    }
    answer["spans"] = std::move(spans);
  }
  return answer;
}

}  // namespace klab::ops
