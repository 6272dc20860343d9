// SPDX-License-Identifier: Apache-2.0
#include "compile/cache.h"

#include <sys/stat.h>

#include <fmt/format.h>

#include "base/hash.h"

namespace klab::compile {
namespace {

constexpr int kLayout = 1;               // in every key: raise it when an entry's meaning changes
constexpr std::size_t kMaxPerKey = 8;    // include states of one source that are remembered
constexpr std::size_t kMaxFiles = 4000;  // of each kind; the oldest quarter goes first
constexpr std::uint64_t kMaxBytes = 256u << 20;

// klab-compile has its compilers inside: the file stands for their versions.
std::string compiler_identity() {
  struct stat st {};
  const fs::path program = compiler_program();
  if (::stat(program.c_str(), &st) != 0) return {};
  return fmt::format("{} {} {}.{:09}", program.string(), st.st_size, st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
}

std::string key_of(const Request& request, const std::string& text) {
  std::error_code ec;
  const Json key{{"layout", kLayout},
                 {"language", request.language},
                 {"source", request.source},                 // messages and debug information carry it
                 {"folder", fs::current_path(ec).string()},  // relative includes rest on it
                 {"text", to_string(hash_text(text))},
                 {"options", request.options},
                 {"compiler", compiler_identity()}};
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
    if (!write_file_atomic(object, code)) return;
  std::vector<Answer> answers = read_entry(entry);
  answers.insert(answers.begin(), answer);
  if (answers.size() > kMaxPerKey) answers.resize(kMaxPerKey);
  const std::string text = Json(answers).dump(-1, ' ', false, Json::error_handler_t::replace);
  (void)write_file_atomic(entry, text);
  prune(cache / "keys");
  prune(cache / "code");
}

}  // namespace

Result<Answer> compile_cached(const Request& request, const fs::path& cache, double limit_s) {
  if (request.verb != "compile" || request.output.empty()) return run_compiler(request, limit_s);
  Request exact = request;
  if (exact.source_text.empty()) {
    // Read here, so that what is compiled is what was hashed.
    KLAB_TRY(exact.source_text, read_file(request.source, kMaxBytes));
    if (exact.source_text.empty()) return run_compiler(request, limit_s);
  }
  std::string key;
  try {
    key = key_of(exact, exact.source_text);
  } catch (const std::exception&) {  // a name that is not UTF-8: run_compiler says so
    return run_compiler(request, limit_s);
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
  KLAB_TRY(Answer answer, run_compiler(exact, limit_s));
  if (answer.ok)
    if (const auto code = read_file(request.output, kMaxBytes);
        code && to_string(hash_text(*code)) == answer.hash)
      store(cache, entry, *code, answer);
  return answer;
}

}  // namespace klab::compile
