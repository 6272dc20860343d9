// SPDX-License-Identifier: Apache-2.0
#include "compile/cache.h"

#include <fmt/format.h>

#include "base/hash.h"
#include "compile/cuda/toolkit.h"
#include "compile/hipcc/rocm.h"

namespace klab::compile {
namespace {

constexpr int kLayout = 2;               // in every key: raise it when an entry's meaning changes
constexpr std::size_t kMaxPerKey = 8;    // include states of one source that are remembered
constexpr std::size_t kMaxFiles = 4000;  // of each kind; the oldest quarter goes first
constexpr std::uint64_t kMaxBytes = 256u << 20;

// klab-compile has its compilers inside: the file stands for their versions.
std::string compiler_identity() { return file_identity(compiler_program()); }

bool is_cuda(const Request& request) { return request.language == "cuda" || request.language == "ptx"; }

std::string key_of(const Request& request, const std::string& text) {
  std::error_code ec;
  const Json key{{"layout", kLayout},
                 {"language", request.language},
                 {"source", request.source},                 // messages and debug information carry it
                 {"folder", fs::current_path(ec).string()},  // relative includes rest on it
                 {"text", to_string(hash_text(text))},
                 {"options", request.options},
                 {"compiler", compiler_identity()},
                 {"toolkit", request.language == "hip" ? hip_identity(request.options.hipcc) : is_cuda(request) ? toolkit_identity() : ""}};
  return to_string(hash_text(key.dump()));
}

bool unchanged(const std::vector<Dependency>& dependencies) {
  for (const Dependency& d : dependencies) {
    std::error_code ec;
    if (d.hash.empty()) {
      if (fs::is_regular_file(d.path, ec)) return false;
      continue;
    }
    const auto content = read_file(d.path, kMaxBytes);
    if (!content || to_string(hash_text(*content)) != d.hash) return false;
  }
  return true;
}

void prune(const fs::path& folder) {
  std::error_code ec;
  std::vector<std::pair<fs::file_time_type, fs::path>> files;
  for (fs::directory_iterator it(folder, ec), end; !ec && it != end; it.increment(ec))
    files.emplace_back(it->last_write_time(ec), it->path());
  if (files.size() <= kMaxFiles) return;
  std::sort(files.begin(), files.end());
  for (std::size_t i = 0; i < files.size() / 4; ++i) fs::remove(files[i].second, ec);
}

std::vector<Answer> read_entry(const fs::path& path) {
  const auto text = read_file(path, kMaxBytes);
  if (!text) return {};
  const auto json = parse_json(*text, path.string());
  if (!json) return {};
  return decode_json<std::vector<Answer>>(*json, path.string()).value_or(std::vector<Answer>{});
}

void store(const fs::path& cache, const fs::path& entry, const std::string& code, const Answer& answer) {
  if (!make_folders(cache / "keys") || !make_folders(cache / "code")) return;
  const fs::path object = cache / "code" / answer.hash;
  std::error_code ec;
  if (!fs::exists(object, ec) ||
      to_string(hash_text(read_file(object, kMaxBytes).value_or(""))) != answer.hash)
    if (!write_file_atomic(object, code, 0600, false)) return;
  std::vector<Answer> answers = read_entry(entry);
  answers.insert(answers.begin(), answer);
  if (answers.size() > kMaxPerKey) answers.resize(kMaxPerKey);
  const std::string text = Json(answers).dump(-1, ' ', false, Json::error_handler_t::replace);
  (void)write_file_atomic(entry, text, 0600, false);
  prune(cache / "keys");
  prune(cache / "code");
}

// Preprocessor lines: an edit elsewhere seldom makes a file fit for NVRTC that was not.
std::string directives_hash(std::string_view text) {
  std::string lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t first = line.find_first_not_of(" \t");
    if (first != std::string_view::npos && line[first] == '#') lines += std::string(line) + "\n";
  }
  return to_string(hash_text(lines));
}

// Where it is kept that NVRTC cannot take this source, and why.
fs::path refusal_file(const Request& request, const fs::path& cache) {
  const Json key{{"source", fs::absolute(request.source).string()},
                 {"options", request.options},
                 {"compiler", compiler_identity()},
                 {"toolkit", toolkit_identity()}};
  return cache / "keys" / ("nvcc-" + to_string(hash_text(key.dump())));
}

std::optional<std::string> remembered_refusal(const fs::path& file, std::string_view text) {
  const auto content = read_file(file, 1u << 20);
  if (!content) return std::nullopt;
  const auto json = parse_json(*content, file.string());
  if (!json || !json->is_object() || json->value("directives", "") != directives_hash(text))
    return std::nullopt;
  return json->value("why", "");
}

Result<Answer> ask(const Request& request, double limit_s, Compiler* warm) {
  return warm != nullptr ? warm->ask(request, limit_s) : run_compiler(request, limit_s);
}

}  // namespace

Result<Answer> compile_cached(const Request& request, const fs::path& cache, double limit_s, Compiler* warm) {
  if (request.verb != "compile" || request.output.empty()) return ask(request, limit_s, warm);
  Request exact = request;
  if (exact.source_text.empty()) {
    // Read here, so that what is compiled is what was hashed.
    KLAB_TRY(exact.source_text, read_file(request.source, kMaxBytes));
    if (exact.source_text.empty()) return ask(request, limit_s, warm);
  }
  std::string key;
  try {
    key = key_of(exact, exact.source_text);
  } catch (const std::exception&) {  // a name that is not UTF-8: run_compiler says so
    return ask(request, limit_s, warm);
  }
  const fs::path entry = cache / "keys" / key;
  for (Answer& answer : read_entry(entry)) {
    if (!answer.ok || !hash_from(answer.hash) || !unchanged(answer.dependencies)) continue;
    const auto code = read_file(cache / "code" / answer.hash, kMaxBytes);
    if (!code || to_string(hash_text(*code)) != answer.hash) continue;
    KLAB_TRY_VOID(write_file_atomic(request.output, *code));
    answer.output = request.output;
    answer.cached = true;
    return std::move(answer);
  }
  fs::path refusal;
  std::optional<std::string> refused;
  if (request.language == "cuda" && request.options.compiler == "auto" && !request.source.empty()) {
    refusal = refusal_file(request, cache);
    refused = remembered_refusal(refusal, exact.source_text);
    if (refused) exact.options.compiler = "nvcc";
  }
  KLAB_TRY(Answer answer, ask(exact, limit_s, warm));
  if (refused) answer.why_compiler = *refused;
  if (answer.nvrtc_refused && make_folders(cache / "keys"))
    (void)write_file_atomic(
        refusal, Json{{"directives", directives_hash(exact.source_text)}, {"why", answer.why_compiler}}.dump(
                     -1, ' ', false, Json::error_handler_t::replace));
  if (answer.ok && answer.cacheable)
    if (const auto code = read_file(request.output, kMaxBytes);
        code && to_string(hash_text(*code)) == answer.hash)
      store(cache, entry, *code, answer);
  return answer;
}

}  // namespace klab::compile
