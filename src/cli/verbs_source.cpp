// SPDX-License-Identifier: Apache-2.0
// source find|select, build, save.
#include <unistd.h>

#include <fmt/format.h>

#include <iostream>

#include "cli/cli.h"
#include "ops/build.h"

namespace klab::cli {
namespace {

struct SourceOptions {
  std::string bundle, root = ".", file;
  std::uint32_t dispatch = 0;
  std::vector<std::string> includes, defines;
};

int do_find(Cli& cli, const SourceOptions& o) {
  auto found = ops::find_source(cli.lab, o.bundle, o.dispatch,
                                {.root = o.root, .include_folders = o.includes, .defines = o.defines});
  if (!found) return cli.report(found.error());
  if (cli.json) {
    cli.print_json("source find", {{"candidates", found->candidates}, {"selected", found->selected}});
    return 0;
  }
  if (found->candidates.empty()) {
    fmt::print(
        "no candidate under {}\n  try: another --root, or -D and -I as the program's build gives them\n",
        o.root);
    return 0;
  }
  std::size_t n = 0;
  for (const variant::Candidate& c : found->candidates) {
    fmt::print("{}. {}  [{}]\n", ++n, cli.bold(c.file), to_string(c.evidence));
    for (const std::string& because : c.because) fmt::print("     {}\n", because);
    if (n == 10) break;
  }
  if (!found->selected.empty())
    fmt::print("selected: {}\n", found->selected);
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
  std::string source, name, optimisation, target;
  bool debug_info = false;
  ops::LaunchText launch;
};

int do_build(Cli& cli, const BuildOptions& o) {
  ops::BuildRequest request{
      .bundle = o.common.bundle, .source = o.source, .name = o.name, .launch = o.launch};
  request.more_defines = o.common.defines;
  request.more_includes = o.common.includes;
  if (!o.optimisation.empty() || !o.target.empty() || o.debug_info) {
    // Said on the command line: these replace those that the source was found with.
    request.options = compiler_options({}, o.optimisation, o.target);
    request.options->debug_info = o.debug_info;
  }
  auto built = ops::build_variant(cli.lab, request);
  if (!built) return cli.report(built.error());
  if (cli.json) {
    cli.print_json("build", {{"variant", built->variant},
                             {"same_code", built->same_code},
                             {"reflection", built->compiler.reflection},
                             {"log", built->compiler.log}});
    return 0;
  }
  const session::VariantRow& v = built->variant;
  fmt::print("built variant {} ({}){}\n", cli.bold(v.name), v.id,
             built->same_code ? ": the same code as was captured" : "");
  for (const compile::Message& m : built->compiler.messages)
    fmt::print("  {}:{}: {}: {}\n", m.file, m.line, to_string(m.severity), m.text);
  fmt::print("next: klab compare {} --variant {}\n", o.common.bundle, v.name);
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

void add_launch_options(CLI::App* verb, ops::LaunchText& launch) {
  verb->add_option("--grid", launch.grid, "workgroups, X or X,Y or X,Y,Z");
  verb->add_option("--spec", launch.spec_constants, "specialization constant, ID=VALUE")
      ->allow_extra_args(false);
  verb->add_option("--push", launch.push_constants, "push-constant bytes, OFFSET=HEX")
      ->allow_extra_args(false);
  verb->add_option("--subgroup-size", launch.subgroup_size, "required subgroup size");
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
    auto status = ops::select_source(cli.lab, source_options->bundle, source_options->file,
                                     compiler_options(*source_options, "", ""));
    if (!status) return cli.report(status.error());
    if (cli.json)
      cli.print_json("source select", {{"selected", fs::absolute(source_options->file).string()}});
    else
      fmt::print("selected: {}\n", source_options->file);
    return 0;
  });

  auto build_options = std::make_shared<BuildOptions>();
  auto* build = cli.verb("build", "build a variant of the captured kernel",
                         "klab build matmul.klab --source faster.comp -D TILE=32");
  build->add_option("bundle", build_options->common.bundle, "NAME.klab")->required();
  build->add_option("--source", build_options->source,
                    ".comp or .glsl, .spv, .spvasm; without it only the launch differs");
  build->add_option("--name", build_options->name, "name of the variant (default: the file's)");
  add_compiler_options(build, build_options->common);
  build->add_option("-O,--optimisation", build_options->optimisation, "none, size or performance")
      ->check(CLI::IsMember({"none", "size", "performance"}));
  build->add_option("--target-env", build_options->target, "vulkan1.0 .. vulkan1.3");
  build->add_flag("-g,--debug-info", build_options->debug_info, "keep names and lines");
  add_launch_options(build, build_options->launch);
  cli.run_on(build, [&cli, build_options] { return do_build(cli, *build_options); });

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
