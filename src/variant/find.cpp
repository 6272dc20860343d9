// SPDX-License-Identifier: Apache-2.0
// Which file a captured kernel was built from: every claim is checked by reading or compiling the file.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <set>
#include <thread>
#include <tuple>

#include <fmt/format.h>

#include "base/environment.h"
#include "base/hash.h"
#include "variant/find_cuda.h"
#include "variant/tree.h"
#include "variant/variant.h"

namespace klab::variant {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kBudget = std::chrono::seconds(60);  // of compiling
constexpr std::size_t kFilesPerBatch = 16;
constexpr unsigned kWorkers = 2;
constexpr std::size_t kMaxEveryWay = 32;  // files that are built in every way
constexpr double kBatchLimit_s = 30;

struct Captured {
  compile::Answer code;  // reflection and hashes
  std::string name;      // of the kernel
  std::string entry_point;
  std::vector<std::string> targets;  // likeliest first
  bool has_debug = false;
  bool ours = false;  // made by the compiler that Klab has too: equal bytes can be hoped for
};

struct Work {
  const ShaderFile* file = nullptr;
  Candidate candidate;
  std::vector<Evidence> evidence;
  std::vector<std::string> folders;  // include folders
  std::string problem;               // why it did not compile, or how its interface differs
  std::size_t tail = 0;              // shared path components with debug information
  bool compiled = false, exact = false;
  std::uint64_t distance = UINT64_MAX;  // in instructions, of the nearest build
  bool has(Evidence e) const { return std::find(evidence.begin(), evidence.end(), e) != evidence.end(); }
  void add(Evidence e, std::string because) {
    if (has(e)) return;
    evidence.push_back(e);
    candidate.because.push_back(std::move(because));
  }
};

// "1.5" -> the Vulkan versions that can carry it, the one that has it by default first.
std::vector<std::string> targets_for(const std::string& spirv) {
  static const std::pair<const char*, const char*> kDefaults[] = {
      {"vulkan1.2", "1.5"}, {"vulkan1.3", "1.6"}, {"vulkan1.1", "1.3"}, {"vulkan1.0", "1.0"}};
  std::vector<std::string> first, others;
  for (const auto& [vulkan, version] : kDefaults)
    if (spirv.empty() || spirv == version)
      first.emplace_back(vulkan);
    else
      others.push_back(fmt::format("{},spv{}", vulkan, spirv));
  first.insert(first.end(), others.begin(), others.end());
  return first;
}

std::string describe(const compile::Options& o) {
  std::string text = fmt::format("optimisation {}, {}", o.optimisation, o.target);
  if (o.debug_info) text += ", debug information";
  for (const std::string& d : o.defines) text += ", -D" + d;
  return text;
}

// All ways of building that are tried, likeliest first; the first two of each set of defines tell the
// interface.
std::vector<compile::Options> option_sets(const Captured& captured, const FindRequest& request,
                                          const std::vector<std::string>& folders) {
  std::vector<std::vector<std::string>> defines{request.defines};
  if (!request.defines.empty()) defines.emplace_back();
  std::vector<std::string> levels{"performance", "none", "size"};
  // Optimised builds carry no names.
  if (!captured.code.reflection.source_language.empty() && !captured.has_debug)
    std::swap(levels[0], levels[1]);
  std::vector<compile::Options> sets;
  for (const auto& d : defines)
    for (const bool debug : {captured.has_debug, !captured.has_debug})
      for (const std::string& target : captured.targets)
        for (const std::string& level : levels)
          sets.push_back({folders, d, level, target, captured.entry_point, debug});
  return sets;
}

std::string interface_of(const compile::Reflection& r) {
  std::set<std::string> parts;
  for (const compile::ReflectedBinding& b : r.bindings)
    parts.insert(fmt::format("set {} binding {}: {} x{} of {} B", b.set, b.binding, b.type, b.count, b.size));
  for (const compile::ReflectedSpec& s : r.spec_constants)
    parts.insert(fmt::format("constant {}: {}", s.id, s.type));
  parts.insert(fmt::format("push constants {} B", r.push_constant_bytes));
  parts.insert(fmt::format("block {}x{}x{}{}", r.block[0], r.block[1], r.block[2],
                           r.block_from_spec ? " (specialised)" : ""));
  std::string text;
  for (const std::string& part : parts) text += part + "\n";
  return text;
}

// The first thing that one interface has and the other has not.
std::string difference(const std::string& captured, const std::string& file) {
  const auto first_only_in = [](std::string_view a, std::string_view b) {
    while (!a.empty()) {
      const std::string line(a.substr(0, a.find('\n') + 1));
      a.remove_prefix(line.size());
      if (("\n" + std::string(b)).find("\n" + line) == std::string::npos)
        return line.substr(0, line.size() - 1);
    }
    return std::string();
  };
  const std::string a = first_only_in(captured, file), b = first_only_in(file, captured);
  return fmt::format("the captured kernel has \"{}\", this file \"{}\"", a.empty() ? "no more" : a,
                     b.empty() ? "nothing like it" : b);
}

Result<Captured> look_at_capture(const bundle::Reader& bundle, std::uint32_t index) {
  const bundle::Manifest& manifest = bundle.manifest();
  if (index >= manifest.dispatches.size())
    return fail(ErrorCode::not_found, fmt::format("the bundle has {} dispatches, not one numbered {}",
                                                  manifest.dispatches.size(), index));
  const bundle::Dispatch& dispatch = manifest.dispatches[index];
  KLAB_TRY(const std::vector<std::byte> bytes, bundle.code(dispatch.code));
  Captured captured;
  captured.name = dispatch.name;
  captured.entry_point = dispatch.entry_point.empty() ? "main" : dispatch.entry_point;
  compile::Request request{
      .verb = "reflect", .language = "spirv", .source = manifest.code[dispatch.code].file};
  request.source_text.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  KLAB_TRY(captured.code, compile::run_compiler(request));
  // What cannot be read still has its bytes to compare with.
  captured.code.hash = to_string(hash_bytes(bytes));
  captured.targets = targets_for(captured.code.reflection.version);
  // The third word names the generator, here and in the other byte order alike; 13 is shaderc.
  if (bytes.size() >= 12) captured.ours = bytes[10] == std::byte{13} || bytes[9] == std::byte{13};
  captured.has_debug = !captured.code.reflection.source_text.empty();
  return captured;
}

// Compilers put lines of their own before the text, up to a "#line 1".
bool is_embedded(std::string_view embedded, std::string_view text) {
  if (text.empty() || !embedded.ends_with(text)) return false;
  const std::string_view before = embedded.substr(0, embedded.size() - text.size());
  return before.empty() || before.ends_with("#line 1\n");
}
std::string without_cr(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text[i] != '\r' || i + 1 == text.size() || text[i + 1] != '\n') out += text[i];
  return out;
}

void read_evidence(Work& work, const Captured& captured, const bundle::CodeObject& code) {
  const ShaderFile& file = *work.file;
  const compile::Reflection& facts = captured.code.reflection;
  if (!facts.source_text.empty()) {
    if (is_embedded(facts.source_text, file.text))
      work.add(Evidence::embedded_source, "the captured SPIR-V carries exactly this text");
    else if (is_embedded(without_cr(facts.source_text), without_cr(file.text)))
      work.add(Evidence::embedded_source, "the captured SPIR-V carries this text, with other line endings");
  }
  std::string named;
  for (const std::string& name : facts.source_files)
    if (const std::size_t tail = shared_tail(name, file.path); tail > work.tail)
      work.tail = tail, named = name;
  if (work.tail > 0 && file.has_main)
    work.add(Evidence::debug_name, fmt::format("debug information of the captured SPIR-V names {}", named));
  const std::string stem = shader_stem(file.path);
  for (const std::string& name : {captured.name, code.name})
    if (file.has_main && !name.empty() && (stem == name || stem == shader_stem(name)))
      work.add(Evidence::name_matches, fmt::format("the file is called like the kernel, {}", name));
}

// Many compilations, a few in each process; a batch that a crash took is done one by one.
std::vector<compile::Answer> compile_all(const std::vector<compile::Request>& requests, double limit_s) {
  compile::Request batch{.verb = "batch"};
  batch.batch = requests;
  if (auto answer = compile::run_compiler(batch, limit_s); answer && answer->ok)
    return std::move(answer->batch);
  std::vector<compile::Answer> answers;
  for (const compile::Request& one : requests) {
    auto answer = compile::run_compiler(one, limit_s / 4);
    if (answer)
      answers.push_back(std::move(*answer));
    else
      answers.push_back({.error = answer.error()});
  }
  return answers;
}

class Search {
 public:
  Search(const Captured& captured, const FindRequest& request) : captured_(captured), request_(request) {}

  void run(const std::vector<Work*>& todo) {
    in_parallel(todo, kFilesPerBatch, [this](const std::vector<Work*>& some) { first_look(some); });
    // Code seldom depends on more than level and text, so one match spares the others the full search.
    std::vector<Work*> second;
    for (Work* work : todo)
      if (captured_.ours && work->has(Evidence::same_code) && !work->exact) second.push_back(work);
    const bool sure =
        std::any_of(todo.begin(), todo.end(), [](const Work* w) { return w->has(Evidence::same_code); });
    if (!sure) {
      for (Work* work : todo)
        if (work->has(Evidence::interface_matches) || work->has(Evidence::embedded_source))
          second.push_back(work);
      std::stable_sort(second.begin(), second.end(), [](const Work* a, const Work* b) {
        return std::tuple(!a->has(Evidence::embedded_source), !a->has(Evidence::debug_name), a->distance) <
               std::tuple(!b->has(Evidence::embedded_source), !b->has(Evidence::debug_name), b->distance);
      });
    }
    if (second.size() > kMaxEveryWay) second.resize(kMaxEveryWay);
    in_parallel(second, 1, [this](const std::vector<Work*>& some) { every_way(*some.front()); });
  }

 private:
  template <class Job>
  void in_parallel(const std::vector<Work*>& todo, std::size_t at_once, const Job& job) const {
    std::atomic<std::size_t> next{0};
    const auto worker = [&, environment = ScopedEnvironment::current()] {
      const ScopedEnvironment scope(environment);
      for (;;) {
        const std::size_t from = next.fetch_add(at_once);
        if (from >= todo.size()) return;
        const std::size_t to = std::min(from + at_once, todo.size());
        if (Clock::now() < deadline_) {
          job({todo.begin() + static_cast<std::ptrdiff_t>(from),
               todo.begin() + static_cast<std::ptrdiff_t>(to)});
          continue;
        }
        for (std::size_t i = from; i < to; ++i)
          if (!todo[i]->compiled) todo[i]->problem = "it was not compiled: the search ran out of time";
      }
    };
    std::vector<std::thread> threads;
    for (unsigned i = 1; i < kWorkers && todo.size() > at_once; ++i) threads.emplace_back(worker);
    worker();
    for (std::thread& t : threads) t.join();
  }

  compile::Request request_for(const Work& work, const compile::Options& options) const {
    return {.verb = "compile", .language = "glsl", .source = work.file->path.string(), .options = options};
  }

  // Two levels of each file: is its interface the captured one, or even its code?
  void first_look(const std::vector<Work*>& some) const {
    std::vector<compile::Request> requests;
    std::vector<std::pair<Work*, compile::Options>> meant;
    for (Work* work : some) {
      const auto sets = option_sets(captured_, request_, work->folders);
      const std::size_t half = request_.defines.empty() ? sets.size() : sets.size() / 2;
      for (std::size_t at : {std::size_t{0}, std::size_t{1}, half, half + 1})
        if (at < sets.size()) {
          meant.emplace_back(work, sets[at]);
          requests.push_back(request_for(*work, sets[at]));
        }
    }
    const auto answers = compile_all(requests, kBatchLimit_s);
    for (std::size_t i = 0; i < answers.size(); ++i) judge(*meant[i].first, meant[i].second, answers[i]);
  }

  // Debug information changes bytes but not code: it is varied only once the code is right.
  void every_way(Work& work) const {
    const auto sets = option_sets(captured_, request_, work.folders);
    for (const bool debug : {captured_.has_debug, !captured_.has_debug}) {
      if (work.exact || (debug != captured_.has_debug && !work.has(Evidence::same_code))) return;
      std::vector<compile::Request> requests;
      std::vector<const compile::Options*> meant;
      for (const compile::Options& options : sets) {
        if (options.debug_info != debug) continue;
        requests.push_back(request_for(work, options));
        meant.push_back(&options);
      }
      const auto answers = compile_all(requests, kBatchLimit_s);
      for (std::size_t i = 0; i < answers.size() && !work.exact; ++i) judge(work, *meant[i], answers[i]);
    }
  }

  void judge(Work& work, const compile::Options& options, const compile::Answer& answer) const {
    if (!answer.ok) {
      if (!work.compiled && work.problem.empty() && answer.error)
        work.problem = "it does not compile with the options tried: " + answer.error->what;
      return;
    }
    const auto adopt = [&] {
      work.candidate.options = options;
      work.problem.clear();
    };
    if (!work.compiled) adopt();
    work.compiled = true;
    if (answer.hash == captured_.code.hash) {
      if (work.exact) return;
      adopt();
      work.exact = true;
      // It replaces the weaker form of the same claim.
      std::erase(work.evidence, Evidence::same_code);
      std::erase_if(work.candidate.because,
                    [](const std::string& s) { return s.find("after stripping") != std::string::npos; });
      work.add(Evidence::same_code,
               fmt::format("compiles to the captured SPIR-V, byte for byte ({})", describe(options)));
      return;
    }
    if (!answer.stripped_hash.empty() && answer.stripped_hash == captured_.code.stripped_hash) {
      if (work.has(Evidence::same_code)) return;
      adopt();
      work.add(Evidence::same_code,
               fmt::format("compiles to the captured SPIR-V after stripping names ({})", describe(options)));
      return;
    }
    if (work.has(Evidence::same_code)) return;
    const auto n = answer.reflection.instructions, m = captured_.code.reflection.instructions;
    work.distance = std::min(work.distance, n > m ? n - m : m - n);
    if (work.has(Evidence::interface_matches)) return;
    const std::string mine = interface_of(answer.reflection),
                      theirs = interface_of(captured_.code.reflection);
    if (captured_.code.ok && mine == theirs) {
      adopt();
      const compile::Reflection& r = answer.reflection;
      work.add(Evidence::interface_matches,
               fmt::format("has the captured interface: {} bindings, {} B of push constants, {} "
                           "specialization constants, block {}x{}x{}",
                           r.bindings.size(), r.push_constant_bytes, r.spec_constants.size(), r.block[0],
                           r.block[1], r.block[2]));
    } else if (captured_.code.ok && work.problem.empty()) {
      work.problem = "its interface differs: " + difference(theirs, mine);
    }
  }

  const Captured& captured_;
  const FindRequest& request_;
  const Clock::time_point deadline_ = Clock::now() + kBudget;
};

double score_of(const Work& work) {
  double score = 0;
  switch (work.candidate.evidence) {
    case Evidence::same_code:
      score = work.exact ? 1.0 : 0.95;
      break;
    case Evidence::embedded_source:
      score = 0.9;
      break;
    case Evidence::debug_name:
      score = 0.7;
      break;
    case Evidence::interface_matches:
      score = 0.5;
      break;
    case Evidence::name_matches:
      score = 0.3;
      break;
  }
  score += 0.02 * static_cast<double>(work.evidence.size() - 1) +
           0.001 * static_cast<double>(std::min<std::size_t>(work.tail, 9));
  return work.problem.empty() ? score : score * 0.7;
}

}  // namespace

Result<std::vector<Candidate>> find_source(const bundle::Reader& bundle, std::uint32_t dispatch,
                                           const FindRequest& request, compile::Compiler* warm) {
  if (bundle.manifest().device.api == "cuda" || bundle.manifest().device.api == "hip")
    return find_cuda_source(bundle, dispatch, request, warm);
  KLAB_TRY(const Captured captured, look_at_capture(bundle, dispatch));
  KLAB_TRY(const Tree tree, walk_tree(request.root, request.max_files));
  const bundle::CodeObject& code = bundle.manifest().code[bundle.manifest().dispatches[dispatch].code];

  std::vector<Work> all(tree.shaders.size());
  std::vector<Work*> todo;
  for (std::size_t i = 0; i < all.size(); ++i) {
    Work& work = all[i];
    work.file = &tree.shaders[i];
    work.candidate.file = work.file->path.string();
    read_evidence(work, captured, code);
    // No main, no kernel: what others include. No block size here or in an include: another stage.
    const std::string& text = work.file->text;
    if (!work.file->has_main ||
        (text.find("local_size") == std::string::npos && text.find("include") == std::string::npos))
      continue;
    work.folders = request.include_folders;
    const auto more = tree.include_folders(*work.file, work.folders);
    work.folders.insert(work.folders.end(), more.begin(), more.end());
    work.candidate.options.include_folders = work.folders;
    work.candidate.options.defines = request.defines;
    work.candidate.options.entry_point = captured.entry_point;
    work.candidate.options.target = captured.targets.front();
    todo.push_back(&work);
  }
  // The likeliest first, for the case that time runs out.
  std::stable_sort(todo.begin(), todo.end(), [](const Work* a, const Work* b) {
    return std::pair(a->evidence.size(), a->tail) > std::pair(b->evidence.size(), b->tail);
  });
  Search(captured, request).run(todo);

  // Copies of one file are told apart by nothing but their place: the user must know before one is rewritten.
  std::vector<const Work*> same;
  for (const Work& work : all)
    if (work.has(Evidence::same_code)) same.push_back(&work);
  for (Work& work : all)
    if (same.size() > 1 && work.has(Evidence::same_code)) {
      const Work* other = same[same[0] == &work ? 1 : 0];
      work.candidate.because.push_back(
          same.size() == 2 ? fmt::format("but {} builds to the same code", other->file->path.string())
                           : fmt::format("but {} and {} more build to the same code",
                                         other->file->path.string(), same.size() - 2));
    }

  std::vector<Candidate> found;
  for (Work& work : all) {
    if (work.evidence.empty()) continue;
    work.candidate.evidence = *std::min_element(work.evidence.begin(), work.evidence.end());
    work.candidate.score = score_of(work);
    if (!work.problem.empty()) work.candidate.because.push_back("but " + work.problem);
    found.push_back(std::move(work.candidate));
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.score > b.score; });
  const bool sure = !found.empty() && found.front().evidence <= Evidence::embedded_source;
  if (tree.truncated && !sure)
    return fail(ErrorCode::cap_reached,
                fmt::format("{} has more than {} shader files, and the first {} held no certain match",
                            tree.root.string(), request.max_files, request.max_files),
                "name a smaller --root");
  return found;
}

void to_json(Json& j, const Candidate& v) {
  j = Json{{"file", v.file},
           {"evidence", v.evidence},
           {"because", v.because},
           {"options", v.options},
           {"score", v.score}};
}

}  // namespace klab::variant
