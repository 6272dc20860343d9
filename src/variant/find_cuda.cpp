// SPDX-License-Identifier: Apache-2.0
// CUDA and HIP. A file that defines a kernel of the captured name, in its namespaces, with as many parameters, is a
// candidate; one that compiles to the captured machine code is the source.
#include "variant/find_cuda.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "base/ids.h"
#include "compile/compile_commands.h"
#include "variant/tree.h"

namespace klab::variant {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kBudget = std::chrono::seconds(60);  // of compiling
constexpr std::size_t kMaxCompiled = 8;

struct Wanted {
  std::string entry_point, base;
  std::vector<std::string> namespaces;
  bool is_template = false;
  std::size_t parameters = 0;
  bool parameters_known = false;
  std::string code_hash, arch;
  bool hip = false;
};

// "a::b::k<1>" -> namespaces {a, b} and k.
void split(const std::string& expression, Wanted& wanted) {
  const std::string name = expression.substr(0, expression.find('<'));
  wanted.is_template = expression.find('<') != std::string::npos;
  std::size_t from = 0;
  for (std::size_t at; (at = name.find("::", from)) != std::string::npos; from = at + 2)
    wanted.namespaces.push_back(name.substr(from, at - from));
  wanted.base = name.substr(from);
}

Result<compile::Answer> ask(compile::Compiler* warm, const compile::Request& request, double limit_s) {
  return warm != nullptr ? warm->ask(request, limit_s) : compile::run_compiler(request, limit_s);
}

Result<Wanted> look_at_capture(const bundle::Reader& bundle, std::uint32_t index, compile::Compiler* warm) {
  const bundle::Manifest& manifest = bundle.manifest();
  if (index >= manifest.dispatches.size())
    return fail(ErrorCode::not_found, fmt::format("the bundle has {} dispatches, not one numbered {}",
                                                  manifest.dispatches.size(), index));
  const bundle::Dispatch& dispatch = manifest.dispatches[index];
  KLAB_TRY_VOID(bundle.code(dispatch.code));  // its hash
  const bundle::CodeObject& code = manifest.code[dispatch.code];
  Wanted wanted;
  wanted.entry_point = dispatch.entry_point;
  split(compile::name_expression(dispatch.entry_point), wanted);
  wanted.hip = manifest.device.api == "hip";
  wanted.parameters = static_cast<std::size_t>(
      std::count_if(dispatch.argument_layout.begin(), dispatch.argument_layout.end(),
                    [](const bundle::Argument& a) { return !a.hidden(); }));
  wanted.parameters_known = !dispatch.argument_layout.empty();
  compile::Request request{.verb = "reflect",
                           .language = wanted.hip ? "hsaco" : code.kind == "ptx" ? "ptx" : "cubin",
                           .source = fs::absolute(bundle.path() / code.file).string()};
  KLAB_TRY(const compile::Answer answer, ask(warm, request, 60));
  const auto device = manifest.device.device_id;
  if (wanted.hip)
    wanted.arch = !manifest.device.arch.empty() ? manifest.device.arch : answer.cuda ? answer.cuda->arch : "";
  else if (device != 0) wanted.arch = fmt::format("sm_{}", device);
  if (!answer.cuda) return wanted;
  if (const auto arch = compile::parse_arch(answer.cuda->arch);
      !wanted.hip && arch && (device == 0 || arch->number == device))
    wanted.arch = fmt::format("sm_{}{}", arch->number, arch->suffix);
  if (const compile::KernelFacts* k = answer.cuda->kernel(dispatch.entry_point)) {
    wanted.code_hash = k->code_hash;
    if (k->parameters) wanted.parameters = k->parameters->size(), wanted.parameters_known = true;
  }
  return wanted;
}

bool same_namespaces(const std::vector<std::string>& defined, const std::vector<std::string>& wanted) {
  // An anonymous namespace has no name in the expression.
  std::vector<std::string> named;
  for (const std::string& n : defined)
    if (!n.empty()) named.push_back(n);
  return named == wanted;
}

std::string joined(const std::vector<std::string>& names, const std::string& last) {
  std::string text;
  for (const std::string& n : names) text += (n.empty() ? "(anonymous)" : n) + "::";
  return text + last;
}

struct Work {
  Candidate candidate;
  bool fits = false;  // namespaces and parameters too
  bool compiled = false;
};

// Builds one candidate in the ways that are likely; the first that gives the captured code ends it.
void try_to_build(Work& work, const Wanted& wanted, const FindRequest& request, const Tree& tree,
                  const ShaderFile& file, compile::Compiler* warm, const fs::path& scratch) {
  compile::Options base;
  base.arch = wanted.arch;
  base.entry_point = wanted.entry_point;
  base.include_folders = request.include_folders;
  base.defines = request.defines;
  std::string from;
  if (const fs::path database = compile::find_compile_commands(file.path); !database.empty())
    if (const auto project = compile::read_compile_commands(database, file.path)) {
      const compile::Options& p = project->options;
      base.include_folders.insert(base.include_folders.end(), p.include_folders.begin(),
                                  p.include_folders.end());
      base.defines.insert(base.defines.end(), p.defines.begin(), p.defines.end());
      base.standard = p.standard;
      base.fast_math = p.fast_math;
      base.max_registers = p.max_registers;
      base.project = p.project;
      from = database.string();
    }
  const auto more = tree.include_folders(file, base.include_folders);
  base.include_folders.insert(base.include_folders.end(), more.begin(), more.end());
  work.candidate.options = base;
  std::vector<compile::Options> ways{base};
  if (from.empty()) {
    ways.push_back(base);
    ways.back().fast_math = true;
  }
  std::string problem;
  for (const compile::Options& options : ways) {
    compile::Request build{.verb = "compile",
                           .language = wanted.hip ? "hip" : "cuda",
                           .source = file.path.string(),
                           .output = (scratch / "candidate.code").string(),
                           .options = options};
    const auto answer = ask(warm, build, 60);
    if (!answer) return;
    if (!answer->ok) {
      if (problem.empty() && answer->error)
        problem = "it does not compile with the options tried: " + answer->error->what;
      continue;
    }
    work.compiled = true;
    problem.clear();
    if (wanted.code_hash.empty() || answer->stripped_hash != wanted.code_hash) continue;
    work.candidate.options = options;
    work.candidate.evidence = Evidence::same_code;
    work.candidate.because.insert(
        work.candidate.because.begin(),
        fmt::format("compiles to the captured machine code, byte for byte ({} for {}{}{})", answer->compiler,
                    options.arch, options.fast_math ? ", fast math" : "",
                    from.empty() ? "" : ", options of " + from));
    return;
  }
  if (!problem.empty()) work.candidate.because.push_back("but " + problem);
}

}  // namespace

Result<std::vector<Candidate>> find_cuda_source(const bundle::Reader& bundle, std::uint32_t dispatch,
                                                const FindRequest& request, compile::Compiler* warm) {
  KLAB_TRY(const Wanted wanted, look_at_capture(bundle, dispatch, warm));
  KLAB_TRY(const Tree tree, walk_tree(request.root, request.max_files, TreeKind::cuda));
  std::vector<Work> all;
  std::vector<const ShaderFile*> files;
  for (const ShaderFile& file : tree.shaders) {
    Work work;
    work.candidate.file = file.path.string();
    for (const KernelDefinition& k : kernels_of(file.text)) {
      if (k.name != wanted.base || !k.defined) continue;
      const bool namespaces = same_namespaces(k.namespaces, wanted.namespaces);
      const bool parameters = !wanted.parameters_known || k.parameters == wanted.parameters;
      const bool kind = k.is_template == wanted.is_template;
      const double score = 0.3 + (namespaces ? 0.1 : 0) + (parameters ? 0.1 : 0) + (kind ? 0.05 : 0);
      if (score <= work.candidate.score) continue;
      work.candidate.score = score;
      work.fits = namespaces && parameters && kind;
      work.candidate.evidence = work.fits ? Evidence::interface_matches : Evidence::name_matches;
      work.candidate.because = {fmt::format("line {} defines the kernel {}, {}{} parameter(s)", k.line,
                                            joined(k.namespaces, k.name),
                                            k.is_template ? "a template of " : "of ", k.parameters)};
      if (!namespaces)
        work.candidate.because.push_back("but the captured one is " + joined(wanted.namespaces, wanted.base));
      if (!parameters)
        work.candidate.because.push_back(
            fmt::format("but the captured one has {} parameter(s)", wanted.parameters));
      if (!kind)
        work.candidate.because.emplace_back(wanted.is_template
                                                ? "but the captured one is made from a template"
                                                : "but the captured one is no template");
    }
    if (work.candidate.score == 0) {
      // A macro may make the definition.
      if (wanted.base.size() < 4 || file.text.find(wanted.base) == std::string::npos) continue;
      work.candidate.score = 0.1;
      work.candidate.because = {fmt::format("names {} and has __global__ functions", wanted.base)};
    }
    work.candidate.options.arch = wanted.arch;
    work.candidate.options.include_folders = request.include_folders;
    work.candidate.options.defines = request.defines;
    all.push_back(std::move(work));
    files.push_back(&file);
  }
  std::vector<std::size_t> order(all.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return all[a].candidate.score > all[b].candidate.score;
  });
  std::error_code ec;
  const fs::path scratch = fs::temp_directory_path(ec) / ("klab-find-" + new_id());
  KLAB_TRY_VOID(make_folders(scratch));
  const auto deadline = Clock::now() + kBudget;
  std::size_t built = 0;
  for (const std::size_t i : order) {
    if (wanted.arch.empty() || built == kMaxCompiled || Clock::now() > deadline) break;
    if (all[i].candidate.score < 0.3) break;
    ++built;
    try_to_build(all[i], wanted, request, tree, *files[i], warm, scratch);
    if (all[i].candidate.evidence == Evidence::same_code) all[i].candidate.score = 0.95;
  }
  fs::remove_all(scratch, ec);
  std::vector<Candidate> found;
  for (Work& work : all) found.push_back(std::move(work.candidate));
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.score > b.score; });
  // A header and what includes it, or two copies: the user must know before one is rewritten.
  const auto same = std::count_if(found.begin(), found.end(),
                                  [](const Candidate& c) { return c.evidence == Evidence::same_code; });
  if (same > 1)
    for (Candidate& c : found)
      if (c.evidence == Evidence::same_code)
        c.because.push_back(fmt::format("but {} other file(s) build to the same code", same - 1));
  if (tree.truncated && same == 0)
    return fail(ErrorCode::cap_reached,
                fmt::format("{} has more than {} files with kernels, and the first {} held no certain match",
                            tree.root.string(), request.max_files, request.max_files),
                "name a smaller --root");
  return found;
}

}  // namespace klab::variant
