// SPDX-License-Identifier: Apache-2.0
// source find|select, build, save.
#include <unistd.h>

#include <fmt/format.h>

#include <iostream>

#include "base/units.h"
#include "cli/cli.h"
#include "ops/requests.h"

namespace klab::cli {
namespace {

struct SourceOptions {
  std::string bundle, root = ".", file, output;
  bool replace = false;
  std::uint32_t dispatch = 0;
  std::vector<std::string> includes, defines;
};

std::vector<std::string> absolute_paths(const std::vector<std::string>& paths) {
  std::vector<std::string> out;
  for (const std::string& path : paths) out.push_back(absolute_path(path));
  return out;
}

int do_find(Cli& cli, const SourceOptions& o) {
  auto found = cli.call("source.find", {{"bundle", absolute_path(o.bundle)},
                                        {"dispatch", o.dispatch},
                                        {"root", absolute_path(o.root)},
                                        {"include_folders", absolute_paths(o.includes)},
                                        {"defines", o.defines}});
  if (!found) return cli.report(found.error());
  if (cli.json) {
    cli.print_json("source find", std::move(*found));
    return 0;
  }
  const Json& candidates = found->at("candidates");
  if (candidates.empty()) {
    fmt::print(
        "no candidate under {}\n  try: another --root, or -D and -I as the program's build gives them\n",
        o.root);
    if (found->contains("own_source"))
      fmt::print("  the bundle has {} itself: klab source write {} -o FILE\n",
                 (*found)["own_source"].get<std::string>(), o.bundle);
    return 0;
  }
  std::size_t n = 0;
  for (const Json& c : candidates) {
    fmt::print("{}. {}  [{}]\n", ++n, cli.bold(c.at("file").get<std::string>()),
               c.at("evidence").get<std::string>());
    for (const Json& because : c.at("because")) fmt::print("     {}\n", because.get<std::string>());
    if (n == 10) break;
  }
  if (const std::string selected = found->value("selected", ""); !selected.empty())
    fmt::print("selected: {}\n", selected);
  else
    fmt::print("none is certain; choose one: klab source select {} --file FILE\n", o.bundle);
  return 0;
}

compile::Options compiler_options(const SourceOptions& o, const std::string& optimisation,
                                  const std::string& target) {
  compile::Options options;
  options.include_folders = o.includes;
  options.defines = o.defines;
  if (!optimisation.empty()) options.optimisation = optimisation;
  if (!target.empty()) options.target = target;
  return options;
}

struct BuildOptions {
  SourceOptions common;
  std::string session, source, name, optimisation, target;
  bool debug_info = false;
  ops::LaunchText launch;
  ops::CudaBuild cuda;
  std::string compile_commands;
  std::uint32_t max_registers = 0;
  bool fast_math = false, no_line_info = false;
};

// "32 (+8)": the figure, and how it differs from the captured kernel's.
template <class T>
std::string with_delta(const Cli& cli, std::optional<T> value, std::optional<T> before, bool bytes,
                       bool less_is_good = true) {
  if (!value) return "not known";
  const auto shown = [&](std::uint64_t v) { return bytes ? format_bytes(v) : std::to_string(v); };
  std::string text = shown(static_cast<std::uint64_t>(*value));
  if (!before || *before == *value) return text;
  const bool less = *value < *before;
  const std::string delta =
      fmt::format(" ({}{})", less ? "-" : "+",
                  shown(static_cast<std::uint64_t>(less ? *before - *value : *value - *before)));
  return text + (less == less_is_good ? cli.good(delta) : cli.warn(delta));
}

std::string occupancy_text(const compile::Occupancy& o) {
  return fmt::format("{:.0f} % ({} of {} warps, {} block(s); limited by {})", o.fraction * 100, o.warps,
                     o.max_warps, o.blocks, o.limited_by);
}

void print_cuda(const Cli& cli, const Json& built) {
  const auto r = built.at("cuda").get<ops::CudaReport>();
  const double compile_ms = built.value("compile_ms", 0.0);
  if (const std::string compiler = built.value("compiler", ""); !compiler.empty())
    fmt::print("  {} for {}{}\n", compiler, r.arch,
               built.value("cached", false) ? " (from the build cache)"
               : compile_ms > 0             ? fmt::format(" in {:.0f} ms", compile_ms)
                                            : "");
  if (r.kernel) {
    const compile::KernelFacts& k = *r.kernel;
    const auto before = [&](auto member) {
      using T = std::decay_t<decltype(k.*member)>;
      return r.baseline ? std::optional<T>((*r.baseline).*member) : std::optional<T>();
    };
    const auto figure = [&](auto member, bool bytes) {
      using T = std::decay_t<decltype(k.*member)>;
      return with_delta(cli, std::optional<T>(k.*member), before(member), bytes);
    };
    fmt::print("  registers {}, local {}, static shared {}, code {}\n",
               with_delta(cli, k.registers, r.baseline ? r.baseline->registers : std::nullopt, false),
               figure(&compile::KernelFacts::local_bytes, true),
               figure(&compile::KernelFacts::shared_bytes, true),
               figure(&compile::KernelFacts::code_bytes, true));
    if (k.scalar_registers)
      fmt::print("  scalar registers {}, spilled registers {} vector, {} scalar; waves of {}\n", *k.scalar_registers,
                 k.vector_spills.value_or(0), k.scalar_spills.value_or(0), k.wavefront_size);
    if (k.spill_store_bytes)
      fmt::print("  spills: {} stored, {} loaded per thread\n", format_bytes(*k.spill_store_bytes),
                 format_bytes(k.spill_load_bytes.value_or(0)));
    if (k.max_block[0] != 0 || k.required_block[0] != 0 || k.cluster[0] != 0)
      fmt::print("  compiled for:{}{}{}\n",
                 k.max_block[0] != 0
                     ? fmt::format(" at most {} threads a block",
                                   std::uint64_t{k.max_block[0]} * k.max_block[1] * k.max_block[2])
                     : "",
                 k.required_block[0] != 0 ? " blocks of " + dimensions(k.required_block) : "",
                 k.cluster[0] != 0 ? " clusters of " + dimensions(k.cluster) : "");
    if (k.instructions) {
      const compile::InstructionMix& mix = *k.instructions;
      const bool known = r.baseline && r.baseline->instructions;
      fmt::print("  {} instructions, {} of them for matrix units",
                 with_delta(cli, std::optional(mix.total),
                            known ? std::optional(r.baseline->instructions->total) : std::nullopt, false),
                 with_delta(cli, std::optional(mix.matrix_total()),
                            known ? std::optional(r.baseline->instructions->matrix_total()) : std::nullopt,
                            false, false));
      std::string list;
      for (const auto& [name, count] : mix.matrix)
        list += fmt::format("{}{} {}", list.empty() ? ": " : ", ", count, name);
      fmt::print("{}\n", list);
      std::string groups;
      for (const auto& [name, count] : mix.groups)
        groups += fmt::format("{}{} {}", groups.empty() ? "" : ", ", name, count);
      fmt::print("    {}\n", groups);
    } else if (built.contains("module")) {
      if (const auto module = built["module"].get<compile::CudaFacts>(); !module.disassembler_problem.empty())
        fmt::print("  instructions are not counted: {}\n", module.disassembler_problem);
    }
  }
  if (r.occupancy) {
    fmt::print("  theoretical occupancy {}\n", occupancy_text(*r.occupancy));
    if (r.baseline_occupancy && r.baseline_occupancy->warps != r.occupancy->warps)
      fmt::print("    captured: {}\n", occupancy_text(*r.baseline_occupancy));
  }
  for (const std::string& note : r.notes) fmt::print("  note: {}\n", note);
}

int do_write_source(Cli& cli, const SourceOptions& o) {
  auto written = cli.call("source.write", {{"bundle", absolute_path(o.bundle)},
                                           {"file", absolute_path(o.output)},
                                           {"dispatch", o.dispatch},
                                           {"replace", o.replace}});
  if (!written) return cli.report(written.error());
  if (cli.json)
    cli.print_json("source write", std::move(*written));
  else
    fmt::print("wrote {}: {}; it is the bundle's source now\nnext: edit it, then klab build {} --source {}\n",
               o.output, written->value("from", ""), o.bundle, o.output);
  return 0;
}

int do_build(Cli& cli, const BuildOptions& o) {
  ops::BuildRequest request{.source = absolute_path(o.source), .name = o.name, .launch = o.launch};
  request.more_defines = o.common.defines;
  request.more_includes = absolute_paths(o.common.includes);
  if (!o.optimisation.empty() || !o.target.empty() || o.debug_info) {
    // Said on the command line: these replace those that the source was found with.
    request.options = compiler_options({}, o.optimisation, o.target);
    request.options->debug_info = o.debug_info;
  }
  request.cuda = o.cuda;
  request.cuda.compile_commands = absolute_path(o.compile_commands);
  request.cuda.hipcc = absolute_path(o.cuda.hipcc);
  if (o.max_registers != 0) request.cuda.max_registers = o.max_registers;
  if (o.fast_math) request.cuda.fast_math = true;
  if (o.no_line_info) request.cuda.line_info = false;
  request.instructions = true;
  Json arguments = ops::build_arguments(request);
  const bool of_session = !o.session.empty();
  arguments[of_session ? "session" : "bundle"] = of_session ? o.session : absolute_path(o.common.bundle);
  auto built = cli.call(of_session ? "session.build" : "build", arguments);
  if (!built) return cli.report(built.error());
  if (cli.json) {
    cli.print_json(of_session ? "session build" : "build", std::move(*built));
    return 0;
  }
  const std::string name = built->at("variant").at("name");
  fmt::print("built variant {} ({}){}\n", cli.bold(name), built->at("variant").at("id").get<std::string>(),
             built->value("same_code", false) ? ": the same code as was captured" : "");
  for (const auto& m : built->at("messages").get<std::vector<compile::Message>>())
    fmt::print("  {}:{}: {}: {}\n", m.file, m.line, to_string(m.severity), m.text);
  if (built->contains("cuda")) print_cuda(cli, *built);
  fmt::print("next: klab {} {} --variant {}\n", of_session ? "session compare" : "compare",
             of_session ? o.session : o.common.bundle, name);
  return 0;
}

struct SaveOptions {
  std::string bundle, variant, file, undo;
  bool yes = false, dry_run = false, force = false, list = false;
};

int do_undo(Cli& cli, const SaveOptions& o) {
  auto undone = variant::undo(o.undo, o.force);
  if (!undone) return cli.report(undone.error());
  if (cli.json)
    cli.print_json("save", {{"undone", *undone}});
  else
    fmt::print("{} is again as it was before save {}\n", undone->file, o.undo);
  return 0;
}

int do_list(Cli& cli) {
  auto saves = variant::list_saves();
  if (!saves) return cli.report(saves.error());
  if (cli.json) {
    cli.print_json("save", {{"saves", *saves}});
    return 0;
  }
  std::vector<std::vector<std::string>> rows{{"id", "at", "file"}};
  for (const variant::Saved& s : *saves) rows.push_back({s.id, s.at, s.file});
  fmt::print("{}", rows.size() > 1 ? table(rows, "") : "nothing was saved yet\n");
  return 0;
}

int do_save(Cli& cli, const SaveOptions& o) {
  if (o.list) return do_list(cli);
  if (!o.undo.empty()) return do_undo(cli, o);
  if (o.bundle.empty() || o.variant.empty())
    return cli.report({ErrorCode::usage, "save needs a bundle and a variant",
                       "klab save BUNDLE --variant NAME, or klab save --undo ID", 0});
  auto preview = ops::preview_save(cli.lab, {.bundle = o.bundle, .variant = o.variant, .file = o.file});
  if (!preview) return cli.report(preview.error());
  const variant::SavePlan& plan = preview->plan;
  if (!cli.json) {
    fmt::print("variant {} is {}: {}\n", cli.bold(preview->variant.name),
               cli.good(to_string(preview->verdict.correctness)), preview->verdict.reason);
    if (plan.diff.empty()) {
      fmt::print("{} already holds this text\n", plan.file.string());
      return 0;
    }
    std::istringstream lines(plan.diff);
    for (std::string line; std::getline(lines, line);)
      fmt::print("{}\n", line[0] == '+' ? cli.good(line) : line[0] == '-' ? cli.bad(line) : line);
  }
  auto answer = [&](const char* state) {
    return Json{
        {"state", state}, {"file", plan.file.string()}, {"diff", plan.diff}, {"verdict", preview->verdict}};
  };
  if (o.dry_run || plan.diff.empty()) {
    if (cli.json)
      cli.print_json("save", answer(plan.diff.empty() ? "unchanged" : "preview"));
    else
      fmt::print("nothing was written (--dry-run)\n");
    return 0;
  }
  if (!o.yes) {
    if (cli.json || ::isatty(STDIN_FILENO) == 0)
      return cli.report({ErrorCode::usage, "nobody is here to confirm; nothing was written",
                         "look at it with --dry-run, then add --yes", 0});
    fmt::print("write this to {}? [y/N] ", plan.file.string());
    std::fflush(stdout);
    std::string line;
    std::getline(std::cin, line);
    if (line != "y" && line != "yes") {
      fmt::print("nothing was written\n");
      return 0;
    }
  }
  auto saved = variant::save(plan);
  if (!saved) return cli.report(saved.error());
  if (cli.json) {
    Json whole = answer("saved");
    whole["saved"] = *saved;
    cli.print_json("save", std::move(whole));
  } else {
    fmt::print("saved {}; undo with: klab save --undo {}\n", saved->file, saved->id);
  }
  return 0;
}

void add_compiler_options(CLI::App* verb, SourceOptions& o) {
  verb->add_option("-I,--include", o.includes, "folder for #include, first come first searched")
      ->allow_extra_args(false);
  verb->add_option("-D,--define", o.defines, "NAME or NAME=VALUE")->allow_extra_args(false);
}

}  // namespace

std::string figures_line(const compile::KernelFacts& kernel) {
  return fmt::format("{} registers, {} local, {} static shared, {} code",
                     kernel.registers ? std::to_string(*kernel.registers) : "?",
                     format_bytes(kernel.local_bytes), format_bytes(kernel.shared_bytes),
                     format_bytes(kernel.code_bytes));
}

void add_launch_options(CLI::App* verb, ops::LaunchText& launch) {
  verb->add_option("--grid", launch.grid, "workgroups (blocks), X or X,Y or X,Y,Z");
  verb->add_option("--block", launch.block, "CUDA: threads of a block, X or X,Y or X,Y,Z");
  verb->add_option("--cluster", launch.cluster, "CUDA: blocks of a cluster, X or X,Y or X,Y,Z");
  verb->add_option("--dynamic-shared", launch.dynamic_shared,
                   "CUDA: dynamic shared memory of a block, bytes or 48K");
  verb->add_option("--attribute", launch.attributes, "CUDA: launch or function attribute, NAME=INTEGER")
      ->allow_extra_args(false);
  verb->add_option("--spec", launch.spec_constants, "specialization constant, ID=VALUE")
      ->allow_extra_args(false);
  verb->add_option("--push", launch.push_constants, "push-constant bytes, OFFSET=HEX")
      ->allow_extra_args(false);
  verb->add_option("--subgroup-size", launch.subgroup_size, "required subgroup size");
}

namespace {

void add_build(Cli& cli, CLI::App* build, bool of_session) {
  auto build_options = std::make_shared<BuildOptions>();
  if (of_session)
    build->add_option("session", build_options->session, "its id")->required();
  else
    build->add_option("bundle", build_options->common.bundle, "NAME.klab")->required();
  build->add_option(
      "--source", build_options->source,
      ".comp, .glsl, .spv, .spvasm; .cu, .cuh, .ptx, .cubin; .hip, .cpp, .hsaco; without it only the launch differs");
  build->add_option("--name", build_options->name, "name of the variant (default: the file's)");
  add_compiler_options(build, build_options->common);
  build->add_option("-O,--optimisation", build_options->optimisation, "none, size or performance")
      ->check(CLI::IsMember({"none", "size", "performance"}));
  build->add_option("--target-env", build_options->target, "vulkan1.0 .. vulkan1.3");
  build->add_flag("-g,--debug-info", build_options->debug_info,
                  "keep names and lines (CUDA: lines are kept anyway)");
  ops::CudaBuild& cuda = build_options->cuda;
  build->add_option("--compiler", cuda.compiler,
                    "CUDA: auto (NVRTC where it can, else nvcc), nvrtc or nvcc; HIP: auto (hipcc where there is one), hipcc or "
                    "hiprtc")
      ->check(CLI::IsMember({"auto", "nvrtc", "nvcc", "hipcc", "hiprtc"}));
  build->add_option("--hipcc", cuda.hipcc, "HIP: the hipcc to build with (default: KLAB_HIPCC, ROCM_PATH, PATH, /opt/rocm)");
  build->add_option("--arch", cuda.arch, "CUDA, HIP: architecture, sm_90a or gfx90a (default: the captured device's)");
  build->add_option("--kernel", cuda.kernel,
                    "CUDA: the kernel that takes the captured one's place, 'saxpy<float, 4>'");
  build->add_option("--std", cuda.standard, "CUDA: language standard, c++17");
  build->add_option("--maxrregcount", build_options->max_registers, "CUDA: most registers a thread may have")
      ->check(CLI::Range(1u, 255u));
  build->add_flag("--use_fast_math", build_options->fast_math, "CUDA: fast, less exact arithmetic");
  build->add_flag("--no-lineinfo", build_options->no_line_info, "CUDA: leave out line information");
  build->add_option("--option", cuda.extra, "CUDA: handed to the compiler as it is: --option=--fmad=false")
      ->allow_extra_args(false);
  build->add_option(
      "--compile-commands", build_options->compile_commands,
      "CUDA: compile_commands.json with the file's options (default: looked for above the source)");
  build->add_flag("--no-compile-commands", cuda.no_compile_commands, "CUDA: do not look for one");
  add_launch_options(build, build_options->launch);
  cli.run_on(build, [&cli, build_options] { return do_build(cli, *build_options); });
}

}  // namespace

void add_session_build_verb(Cli& cli, CLI::App* session) {
  add_build(cli,
            cli.verb("build", "build a variant of the captured kernel",
                     "klab session build s1234567 --source faster.comp", session),
            true);
}

void add_source_verbs(Cli& cli) {
  auto source_options = std::make_shared<SourceOptions>();
  auto* source = cli.verb("source", "the file that the captured kernel comes from",
                          "klab source find matmul.klab --root .");
  source->require_subcommand(1);
  auto* find = cli.verb("find", "candidates under a folder, ranked by evidence",
                        "klab source find matmul.klab --root .", source);
  find->add_option("bundle", source_options->bundle, "NAME.klab")->required();
  find->add_option("--root", source_options->root, "folder to look in")->capture_default_str();
  find->add_option("--dispatch", source_options->dispatch, "which dispatch of the bundle")
      ->capture_default_str();
  add_compiler_options(find, *source_options);
  cli.run_on(find, [&cli, source_options] { return do_find(cli, *source_options); });
  auto* select =
      cli.verb("select", "say which file it is", "klab source select matmul.klab --file matmul.comp", source);
  select->add_option("bundle", source_options->bundle, "NAME.klab")->required();
  select->add_option("--file", source_options->file, "the source file")->required();
  add_compiler_options(select, *source_options);
  cli.run_on(select, [&cli, source_options] {
    SourceOptions o = *source_options;
    o.includes = absolute_paths(o.includes);
    auto selected = cli.call("source.select", {{"bundle", absolute_path(o.bundle)},
                                               {"file", absolute_path(o.file)},
                                               {"options", compiler_options(o, "", "")}});
    if (!selected) return cli.report(selected.error());
    if (cli.json)
      cli.print_json("source select", std::move(*selected));
    else
      fmt::print("selected: {}\n", source_options->file);
    return 0;
  });

  auto* write =
      cli.verb("write", "write out the source that the bundle itself holds: PTX, or embedded shader text",
               "klab source write softmax.klab -o softmax.ptx", source);
  write->add_option("bundle", source_options->bundle, "NAME.klab")->required();
  write->add_option("-o,--output", source_options->output, "file to write")->required();
  write->add_option("--dispatch", source_options->dispatch, "which dispatch of the bundle")
      ->capture_default_str();
  write->add_flag("--replace", source_options->replace, "overwrite the file");
  cli.run_on(write, [&cli, source_options] { return do_write_source(cli, *source_options); });

  add_build(cli,
            cli.verb("build", "build a variant of the captured kernel",
                     "klab build matmul.klab --source faster.cu -D TILE=32"),
            false);

  auto save_options = std::make_shared<SaveOptions>();
  auto* save =
      cli.verb("save", "write a correct variant into the source file; shows the diff, keeps a backup",
               "klab save matmul.klab --variant faster");
  save->add_option("bundle", save_options->bundle, "NAME.klab");
  save->add_option("--variant", save_options->variant, "name or id");
  save->add_option("--file", save_options->file, "file to write (default: the bundle's selected source)");
  save->add_flag("-y,--yes", save_options->yes, "do not ask");
  save->add_flag("-n,--dry-run", save_options->dry_run, "show the diff and write nothing");
  save->add_option("--undo", save_options->undo, "put back what save ID replaced");
  save->add_flag("--force", save_options->force, "undo even if the file was changed since");
  save->add_flag("--list", save_options->list, "what was saved so far");
  cli.run_on(save, [&cli, save_options] { return do_save(cli, *save_options); });
}

}  // namespace klab::cli
