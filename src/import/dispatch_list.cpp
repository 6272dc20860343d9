// SPDX-License-Identifier: Apache-2.0
// Not here: making a list (capture/ traces a program).
#include "import/dispatch_list.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>

#include <fmt/format.h>

namespace klab::import {
namespace {

constexpr int kListVersion = 1;
constexpr std::size_t kMaxLine = 16u << 20;
constexpr std::size_t kBuffer = 1 << 20;

std::string dump(const Json& j) { return j.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json header_json(const DispatchList& list) {
  return Json{{"klab_dispatch_list", kListVersion},
              {"source", list.source},
              {"device", list.device},
              {"program", list.program},
              {"exit_code", list.exit_code},
              {"kernels", list.kernels.size()},
              {"rows", list.rows.size()},
              {"warnings", list.warnings}};
}

Json kernel_json(const Kernel& k) {
  Json j{{"kernel", k.name},
         {"entry_point", k.entry_point},
         {"hash", k.hash},
         {"code_hash", k.code_hash},
         {"block", k.block}};
  if (!k.refusal.empty()) j["refusal"] = k.refusal;
  return j;
}

// [kernel, sequence, nth, [x, y, z], call, queue, begin_ns, gpu_ns], and of CUDA [x, y, z] of the block and the bytes of
// dynamic shared memory
Json row_json(const Row& r) {
  Json j = Json::array({r.kernel, r.sequence, r.nth, r.grid, r.call, r.queue, r.begin_ns, r.gpu_ns});
  if (r.block[0] != 0) {
    j.push_back(r.block);
    j.push_back(r.dynamic_shared_bytes);
  }
  return j;
}

Kernel read_kernel(const Json& j) {
  Kernel k;
  read_required(j, "kernel", k.name);
  read_optional(j, "entry_point", k.entry_point);
  read_optional(j, "hash", k.hash);
  read_optional(j, "code_hash", k.code_hash);
  bundle::read_dim3(j, "block", k.block);
  read_optional(j, "refusal", k.refusal);
  return k;
}

template <class T>
T whole(const Json& j, const char* what) {
  if (!j.is_number_unsigned() || !std::in_range<T>(j.get<std::uint64_t>()))
    throw std::runtime_error(fmt::format("{} is not a number that fits", what));
  return static_cast<T>(j.get<std::uint64_t>());
}

double nanoseconds(const Json& j, const char* what) {
  const double ns = j.is_number() ? j.get<double>() : -1;
  if (!std::isfinite(ns) || ns < 0) throw std::runtime_error(fmt::format("{} is not a time", what));
  return ns;
}

Row read_row(const Json& j, std::size_t kernels) {
  if (j.size() != 8 && j.size() != 10)
    throw std::runtime_error(fmt::format("a row has 8 or 10 members, not {}", j.size()));
  Row r;
  r.kernel = whole<std::uint32_t>(j[0], "kernel");
  if (r.kernel >= kernels) throw std::runtime_error(fmt::format("kernel {} of {}", r.kernel, kernels));
  r.sequence = whole<std::uint64_t>(j[1], "sequence");
  r.nth = whole<std::uint64_t>(j[2], "nth");
  if (!j[3].is_array() || j[3].size() != 3) throw std::runtime_error("the grid is not three numbers");
  for (std::size_t i = 0; i < 3; ++i) r.grid[i] = whole<std::uint32_t>(j[3][i], "grid");
  r.call = j[4].get<std::string>();
  r.queue = whole<std::uint32_t>(j[5], "queue");
  r.begin_ns = nanoseconds(j[6], "begin_ns");
  r.gpu_ns = nanoseconds(j[7], "gpu_ns");
  if (j.size() == 10) {
    if (!j[8].is_array() || j[8].size() != 3) throw std::runtime_error("the block is not three numbers");
    for (std::size_t i = 0; i < 3; ++i) r.block[i] = whole<std::uint32_t>(j[8][i], "block");
    r.dynamic_shared_bytes = whole<std::uint32_t>(j[9], "dynamic shared memory");
  }
  return r;
}

// Lines of a file through one buffer.
class Lines {
 public:
  explicit Lines(Fd fd) : fd_(std::move(fd)) {}

  /// The next line without its end, valid until the next call. False at the end of the file.
  Result<bool> next(std::string_view& line) {
    for (;;) {
      const std::size_t end = text_.find('\n', scanned_);
      if (end != std::string::npos) {
        line = std::string_view(text_).substr(at_, end - at_);
        at_ = scanned_ = end + 1;
        ++number_;
        return true;
      }
      scanned_ = text_.size();
      if (text_.size() - at_ > kMaxLine)
        return fail(ErrorCode::invalid_data,
                    fmt::format("line {} is longer than {} bytes", number_ + 1, kMaxLine));
      text_.erase(0, at_);
      scanned_ -= at_;
      at_ = 0;
      const std::size_t had = text_.size();
      text_.resize(had + kBuffer);
      ssize_t n = 0;
      do n = ::read(fd_.get(), text_.data() + had, kBuffer);
      while (n < 0 && errno == EINTR);
      text_.resize(had + static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
      if (n < 0) return fail_errno(errno, "read");
      if (n == 0 && text_.empty()) return false;
      if (n == 0) return fail(ErrorCode::invalid_data, fmt::format("line {} is cut off", number_ + 1));
    }
  }
  std::uint64_t number() const { return number_; }

 private:
  Fd fd_;
  std::string text_;
  std::size_t at_ = 0, scanned_ = 0;
  std::uint64_t number_ = 0;
};

}  // namespace

std::vector<Summary> summarise(const DispatchList& list) {
  std::vector<std::vector<double>> times(list.kernels.size());
  std::vector<Summary> all(list.kernels.size());
  double total = 0;
  for (const Row& r : list.rows) {
    if (r.kernel >= all.size()) continue;
    ++all[r.kernel].calls;
    if (r.gpu_ns <= 0) continue;  // not known
    times[r.kernel].push_back(r.gpu_ns);
    total += r.gpu_ns;
  }
  for (std::size_t k = 0; k < all.size(); ++k) {
    Summary& s = all[k];
    auto& t = times[k];
    s.kernel = static_cast<std::uint32_t>(k);
    if (t.empty()) continue;
    std::sort(t.begin(), t.end());
    s.min_ns = t.front();
    s.max_ns = t.back();
    s.median_ns = t.size() % 2 ? t[t.size() / 2] : (t[t.size() / 2 - 1] + t[t.size() / 2]) / 2;
    for (double ns : t) s.total_ns += ns;
    s.share = s.total_ns / total;
  }
  std::erase_if(all, [](const Summary& s) { return s.calls == 0; });
  std::stable_sort(all.begin(), all.end(), [](const Summary& a, const Summary& b) {
    return a.total_ns != b.total_ns ? a.total_ns > b.total_ns : a.calls > b.calls;
  });
  return all;
}

Status write_list(const fs::path& file, const DispatchList& list) {
  std::string text = dump(header_json(list)) + '\n';
  for (const Kernel& k : list.kernels) text += dump(kernel_json(k)) + '\n';
  for (const Row& r : list.rows) text += dump(row_json(r)) + '\n';
  return write_file_atomic(file, text);
}

Result<DispatchList> read_list(const fs::path& file) {
  Fd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat st {};
  if (!fd || ::fstat(fd.get(), &st) != 0) return fail_errno(errno, file.string());
  if (!S_ISREG(st.st_mode))
    return fail(ErrorCode::invalid_data, fmt::format("{} is not a file", file.string()));
  Lines lines(std::move(fd));
  auto bad = [&](std::uint64_t line, std::string_view what) {
    return fail(ErrorCode::invalid_data, fmt::format("{}:{}: {}", file.string(), line, what),
                "it is not a whole dispatch list; trace the program again");
  };
  auto next = [&](Json& j) -> Result<bool> {
    std::string_view line;
    auto more = lines.next(line);
    if (!more) {
      if (more.error().code != ErrorCode::invalid_data) return fail_errno(more.error().vendor, file.string());
      return fail(ErrorCode::invalid_data, fmt::format("{}: {}", file.string(), more.error().what),
                  "it is not a whole dispatch list; trace the program again");
    }
    if (!*more) return false;
    auto parsed = parse_json(line, file.string(), kMaxLine);
    if (!parsed) return bad(lines.number(), parsed.error().what);
    j = std::move(*parsed);
    return true;
  };

  DispatchList list;
  std::uint64_t kernels = 0, rows = 0;
  try {
    Json j;
    KLAB_TRY(bool more, next(j));
    if (!more) return bad(1, "the file is empty");
    int version = 0;
    if (!j.is_object() || !j.contains("klab_dispatch_list"))
      return bad(1, "it does not start as a dispatch list does");
    read_required(j, "klab_dispatch_list", version);
    if (version > kListVersion || version < 1)
      return bad(1, fmt::format("version {}, this klab reads up to {}", version, kListVersion));
    read_optional(j, "source", list.source);
    read_optional(j, "device", list.device);
    read_optional(j, "program", list.program);
    read_optional(j, "exit_code", list.exit_code);
    read_optional(j, "warnings", list.warnings);
    read_required(j, "kernels", kernels);
    read_required(j, "rows", rows);
    // A row takes more than 16 bytes of text, so a count beyond that is a lie and nothing is reserved for it.
    if (rows > static_cast<std::uint64_t>(st.st_size) / 16 ||
        kernels > static_cast<std::uint64_t>(st.st_size) / 8)
      return bad(1, fmt::format("{} kernels and {} rows do not fit in {} bytes", kernels, rows, st.st_size));
    for (std::uint64_t i = 0; i < kernels; ++i) {
      KLAB_TRY(more, next(j));
      if (!more) return bad(lines.number(), fmt::format("it ends after {} of {} kernels", i, kernels));
      list.kernels.push_back(read_kernel(j));
    }
    list.rows.reserve(rows);
    for (std::uint64_t i = 0; i < rows; ++i) {
      KLAB_TRY(more, next(j));
      if (!more) return bad(lines.number(), fmt::format("it ends after {} of {} rows", i, rows));
      if (!j.is_array()) return bad(lines.number(), "a row is not a list");
      list.rows.push_back(read_row(j, list.kernels.size()));
    }
    KLAB_TRY(more, next(j));
    if (more) return bad(lines.number(), "more follows its last row");
  } catch (const std::exception& e) {
    return bad(lines.number(), e.what());
  }
  return list;
}

}  // namespace klab::import
