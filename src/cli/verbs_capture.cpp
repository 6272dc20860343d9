// SPDX-License-Identifier: Apache-2.0
// capture, inspect, bundle pack|unpack.
#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "bundle/pack.h"
#include "cli/cli.h"
#include "ops/build.h"
#include "ops/capture.h"
#include "ops/checks.h"
#include "ops/settings.h"

namespace klab::cli {
namespace {

std::string proof_line(const Cli& cli, const bundle::Proof& proof) {
  switch (proof.state) {
    case bundle::ProofState::equal:
      return cli.good("equal") + ", bit for bit";
    case bundle::ProofState::nondeterministic:
      return cli.warn("nondeterministic") +
             fmt::format(": {} bytes change from run to run; the rest is equal", proof.varying_bytes);
    case bundle::ProofState::differs:
      return cli.bad("differs") + ": " + proof.detail;
    case bundle::ProofState::failed:
      return cli.bad("failed") + ": " + proof.detail;
    case bundle::ProofState::not_run:
      return "not run";
  }
  return "";
}

std::uint64_t captured_bytes(const bundle::Dispatch& d) {
  std::uint64_t sum = 0;
  for (const bundle::Region& r : d.regions) sum += r.size;
  return sum;
}

struct CaptureOptions {
  std::string kernel, out, scope = "reachable", max_bytes, nth = "1";
  double drain_s = 10, limit_s = 600;
  bool stop = false, replace = false, no_proof = false;
};

/// The proof replay of each dispatch that was captured; that it cannot run is no failure of the capture.
Status prove_all(Cli& cli, ops::CaptureAnswer& done) {
  KLAB_TRY(const ops::OpenBundle opened, ops::open_bundle(done.captured.sealed.path));
  cli.lab.say("proof replay: running the captured dispatch from its pre-state");
  for (std::uint32_t i = 0; i < opened.reader.manifest().dispatches.size(); ++i) {
    auto answer =
        cli.call("prove", {{"bundle", absolute_path(done.captured.sealed.path.string())}, {"dispatch", i}});
    if (!answer) {
      if (answer.error().code == ErrorCode::interrupted) return fail(answer.error());
      done.proof_error = answer.error();
      break;
    }
    KLAB_TRY(done.proofs.emplace_back(), decode_json<bundle::Proof>(answer->at("proof"), "proof"));
  }
  return {};
}

int do_capture(Cli& cli, const CaptureOptions& o) {
  auto program = program_of(cli, "capture");
  if (!program) return cli.report(program.error());
  capture::CaptureRequest request{.target = {.argv = *program}, .kernel = o.kernel};
  request.target.limit = std::chrono::milliseconds(static_cast<long>(o.limit_s * 1000));
  request.nth.clear();
  for (const std::string& one : CLI::detail::split(o.nth, ',')) {
    char* end = nullptr;
    const unsigned long long n = std::strtoull(one.c_str(), &end, 10);
    if (one.empty() || *end != '\0' || n == 0)
      return cli.report({ErrorCode::usage, fmt::format("--nth {}: not a list of numbers from 1", o.nth),
                         "--nth 1 or --nth 3,7,20", 0});
    request.nth.push_back(n);
  }
  std::sort(request.nth.begin(), request.nth.end());
  request.nth.erase(std::unique(request.nth.begin(), request.nth.end()), request.nth.end());
  if (!from_string(o.scope, request.scope))
    return cli.report(
        {ErrorCode::usage, fmt::format("--scope {} is not a scope", o.scope), "reachable or all", 0});
  if (!o.max_bytes.empty() && !parse_bytes(o.max_bytes, request.max_bytes))
    return cli.report({ErrorCode::usage, fmt::format("--max-bytes {} is not a size", o.max_bytes),
                       "for example --max-bytes 2GiB", 0});
  request.drain_deadline = std::chrono::milliseconds(static_cast<long>(o.drain_s * 1000));
  request.stop_after_capture = o.stop;
  request.replace = o.replace;
  request.bundle = o.out;
  if (request.bundle.extension() != ".klab") request.bundle += ".klab";

  // The program runs here, in its user's terminal; what replays it may be warm elsewhere.
  auto done = [&]() -> Result<ops::CaptureAnswer> {
    KLAB_TRY(const auto held, cli.hold());
    return ops::capture_dispatch(cli.lab, request, false);
  }();
  if (!done) return cli.report(done.error());
  if (!o.no_proof) {
    if (auto proved = prove_all(cli, *done); !proved) return cli.report(proved.error());
  }
  const capture::Captured& c = done->captured;
  if (cli.json) {
    auto answer = ops::capture_json(*done);
    if (!answer) return cli.report(answer.error());
    cli.print_json("capture", std::move(*answer));
    return 0;
  }
  auto opened = ops::open_bundle(c.sealed.path);
  if (!opened) return cli.report(opened.error());
  for (std::size_t i = 0; i < opened->reader.manifest().dispatches.size(); ++i) {
    const bundle::Dispatch& d = opened->reader.manifest().dispatches[i];
    fmt::print("captured {} (execution {}, grid {}, block {}) into {}\n", cli.bold(d.name), d.nth,
               dimensions(d.grid), dimensions(d.block), c.sealed.path.string());
    fmt::print("  {} in {} regions, scope {}\n", format_bytes(captured_bytes(d)), d.regions.size(), o.scope);
    if (i < done->proofs.size()) fmt::print("  proof replay: {}\n", proof_line(cli, done->proofs[i]));
  }
  fmt::print("  {} on disk; the program exited with {}\n", format_bytes(c.sealed.stored_bytes),
             c.target_exit);
  for (const std::string& w : c.warnings) fmt::print("  note: {}\n", w);
  if (done->proof_error) {
    fmt::print("  {}: {}\n", cli.warn("proof replay could not run"), done->proof_error->what);
    if (!done->proof_error->hint.empty()) fmt::print("    try: {}\n", done->proof_error->hint);
  }
  fmt::print("next: klab replay {}\n", c.sealed.path.string());
  return 0;
}

struct InspectOptions {
  std::string bundle;
  bool no_verify = false, prove = false, source = false;
};

/// "f32", "{u32 n, f32x3 v}, f32 from 16 on"; "-" where nothing is known.
std::string type_of(const validate::Layout& layout, std::uint32_t region) {
  std::string text;
  for (const auto& range : layout.ranges())
    if (range.region == region && text.size() < 60)
      text += fmt::format("{}{}{}", text.empty() ? "" : ", ", validate::describe(range),
                          range.offset == 0 ? "" : fmt::format(" from {} on", range.offset));
  return text.empty() ? "-" : text;
}

int do_inspect(Cli& cli, const InspectOptions& o) {
  auto opened = ops::open_bundle(o.bundle);
  if (!opened) return cli.report(opened.error());
  if (o.prove) {
    for (std::uint32_t i = 0; i < opened->reader.manifest().dispatches.size(); ++i)
      if (auto proof = cli.call("prove", {{"bundle", absolute_path(o.bundle)}, {"dispatch", i}}); !proof)
        return cli.report(proof.error());
    opened = ops::open_bundle(o.bundle);
    if (!opened) return cli.report(opened.error());
  }
  const bundle::Manifest& m = opened->reader.manifest();
  bundle::Reader::Verified verified;
  if (!o.no_verify) {
    auto v = opened->reader.verify();
    if (!v) return cli.report(ops::damaged(v.error(), opened->reader.path()));
    verified = *v;
  }
  auto store = cli.lab.store();
  if (!store) return cli.report(store.error());
  auto variants = (*store)->variants(opened->id);
  if (!variants) return cli.report(variants.error());
  auto row = (*store)->bundle(opened->id);
  if (!row) return cli.report(row.error());
  std::vector<ops::CodeFacts> codes;
  Json code_json = Json::array();
  for (const bundle::CodeObject& code : m.code) {
    auto facts = ops::reflect_code(cli.lab, opened->reader.path() / code.file);
    codes.push_back(facts ? *facts : ops::CodeFacts{});
    code_json.push_back(codes.back().cuda ? Json(*codes.back().cuda) : Json(codes.back().reflection));
  }
  // What the elements are, as far as the code or the project says.
  ops::CheckText checks;
  if (const auto settings = ops::read_settings(fs::current_path())) checks.type_defaults = settings->types;
  std::vector<validate::Layout> layouts;
  for (std::uint32_t i = 0; i < m.dispatches.size(); ++i) {
    std::vector<std::uint64_t> sizes;
    for (const auto& r : m.dispatches[i].regions) sizes.push_back(r.size);
    auto types = ops::element_types(cli.lab, *opened, i, checks);
    layouts.emplace_back(types ? std::move(*types) : std::vector<validate::TypedRange>{}, sizes);
  }
  if (cli.json) {
    Json answer{{"bundle", fs::absolute(opened->reader.path()).string()},
                {"id", opened->id},
                {"manifest", m},
                {"verified", !o.no_verify},
                {"code", code_json}};
    if (!o.no_verify)
      answer["checked"] = {{"chunks", verified.chunks},
                           {"stored_bytes", verified.stored_bytes},
                           {"logical_bytes", verified.logical_bytes},
                           {"code_objects", verified.code_objects}};
    Json list = Json::array();
    for (const session::VariantRow& v : *variants) {
      Json one = v;
      if (auto verdict = (*store)->standing_verdict(opened->id, v.id); verdict && *verdict)
        one["verdict"] = **verdict;
      list.push_back(std::move(one));
    }
    answer["variants"] = std::move(list);
    for (const auto& layout : layouts) answer["types"].push_back(layout.ranges());
    if (*row && !(*row)->source_file.empty()) answer["source"] = (*row)->source_file;
    cli.print_json("inspect", std::move(answer));
    return 0;
  }
  fmt::print("{}\n  made by {} at {} from: {}\n  on {} ({})\n", cli.bold(opened->reader.path().string()),
             m.made_by, m.made_at, fmt::join(m.program.argv, " "), m.device.name, m.device.driver_version);
  if (o.no_verify)
    fmt::print("  hashes not checked (--no-verify)\n");
  else
    fmt::print("  all hashes {}: {} chunks, {} stored for {}\n", cli.good("verified"), verified.chunks,
               format_bytes(verified.stored_bytes), format_bytes(verified.logical_bytes));
  for (std::size_t i = 0; i < m.dispatches.size(); ++i) {
    const bundle::Dispatch& d = m.dispatches[i];
    fmt::print("\ndispatch {}: {} ({}, execution {})\n  grid {}, block {}", i, cli.bold(d.name), d.call,
               d.nth, dimensions(d.grid), dimensions(d.block));
    if (m.device.api == "cuda" || m.device.api == "hip") {
      if (d.threads[0] != 0) fmt::print(" ({} work-items)", dimensions(d.threads));
      if (d.cluster[0] != 0) fmt::print(", cluster {}", dimensions(d.cluster));
      fmt::print(
          ", {} of dynamic shared memory\n  {} argument(s) in {} bytes, {} of them hidden, {} texture or surface "
          "object(s)\n",
          format_bytes(d.dynamic_shared_bytes), d.argument_layout.size(), d.arguments.size(),
          std::count_if(d.argument_layout.begin(), d.argument_layout.end(), [](const auto& a) { return a.hidden(); }),
          d.textures.size());
      for (const bundle::LaunchAttribute& a : d.attributes)
        fmt::print("  attribute {} = {}\n", a.name, a.value);
    } else {
      fmt::print(", {} binding(s), {} push-constant bytes, {} specialization constant(s)\n",
                 d.bindings.size(), d.push_constants.size(), d.spec_constants.size());
    }
    if (d.program_ns > 0) fmt::print("  took {} in the program\n", format_ns(d.program_ns));
    fmt::print("  proof replay: {}\n", proof_line(cli, d.proof));
    std::vector<std::vector<std::string>> rows{
        {"region", "size", "address", "kind", "reached by", "changed", "type", "name"}};
    for (const bundle::Region& r : d.regions) {
      std::uint64_t changed = 0;
      if (r.pre != bundle::kNoList && r.post != bundle::kNoList)
        for (std::uint64_t c = 0; c < opened->reader.chunk_count(r.pre); ++c)
          changed += opened->reader.chunk_hash(r.pre, c) != opened->reader.chunk_hash(r.post, c);
      rows.push_back({std::to_string(r.id), format_bytes(r.size),
                      r.address != 0 ? fmt::format("{:#x}", r.address) : "-", to_string(r.kind),
                      to_string(r.reached_by), changed != 0 ? fmt::format("{} chunk(s)", changed) : "no",
                      type_of(layouts[i], r.id), r.name});
    }
    fmt::print("{}", table(rows, "rr"));
    if (d.code < codes.size() && m.code[d.code].kind == "spirv") {
      const compile::Reflection& c = codes[d.code].reflection;
      fmt::print("  code {}: SPIR-V {}, {} instructions, {} shared, {} matrix, {} barrier, {} atomic{}\n",
                 m.code[d.code].file, c.version, c.instructions, format_bytes(c.shared_bytes),
                 c.matrix_instructions, c.barrier_instructions, c.atomic_instructions,
                 c.uses_physical_addresses ? "; uses device addresses" : "");
      if (o.source && !c.source_text.empty()) fmt::print("{}\n", c.source_text);
    } else if (d.code < codes.size() && codes[d.code].cuda) {
      const compile::CudaFacts& c = *codes[d.code].cuda;
      const compile::KernelFacts* k = c.kernel(d.entry_point);
      fmt::print("  code {}: {} for {}, {} kernel(s), {} module variable(s){}\n", m.code[d.code].file,
                 c.format, c.arch, c.kernels.size(), c.variables.size(),
                 k != nullptr ? "; " + figures_line(*k) : "");
    }
  }
  for (const bundle::LeftOut& l : m.left_out) fmt::print("  left out: {}: {}\n", l.what, l.why);
  if (*row && !(*row)->source_file.empty()) fmt::print("\nsource: {}\n", (*row)->source_file);
  if (!variants->empty()) {
    fmt::print("\nvariants\n");
    std::vector<std::vector<std::string>> rows{{"name", "id", "built from", "verdict"}};
    for (const session::VariantRow& v : *variants) {
      std::string text = "not compared";
      if (auto verdict = (*store)->standing_verdict(opened->id, v.id); verdict && *verdict)
        text = std::string(to_string((*verdict)->correctness)) +
               ((*verdict)->ratio > 0 ? fmt::format(", {:.2f} x of the reference's time", (*verdict)->ratio)
                                      : "");
      rows.push_back({v.name, v.id, v.source_file.empty() ? "(launch only)" : v.source_file, text});
    }
    fmt::print("{}", table(rows, ""));
  }
  return 0;
}

}  // namespace

void add_capture_verbs(Cli& cli) {
  auto capture_options = std::make_shared<CaptureOptions>();
  auto* capture =
      cli.verb("capture", "run a program and take one dispatch out of it, with its inputs and its results",
               "klab capture --kernel matmul --nth 2 -o matmul.klab -- ./program --size 1024");
  capture
      ->add_option("--kernel", capture_options->kernel,
                   "regular expression on the name that `klab dispatches` shows, or a hash")
      ->required();
  capture->add_option("--nth", capture_options->nth, "which execution(s) of it, from 1: 1 or 3,7,20")
      ->capture_default_str();
  capture->add_option("-o,--out", capture_options->out, "bundle to make (NAME.klab)")->required();
  capture
      ->add_option("--scope", capture_options->scope,
                   "reachable: what its arguments lead to; all: every buffer")
      ->capture_default_str();
  capture->add_option("--max-bytes", capture_options->max_bytes,
                      "refuse a capture over this size (default: what the disk has free)");
  capture
      ->add_option("--drain", capture_options->drain_s,
                   "seconds to wait for the device before the capture is refused")
      ->capture_default_str();
  capture->add_option("--time-limit", capture_options->limit_s, "seconds after which the program is ended")
      ->capture_default_str();
  capture->add_flag("--stop-after-capture", capture_options->stop,
                    "end the program then (default: it goes on to its end)");
  capture->add_flag("--replace", capture_options->replace, "put the new bundle in the place of an old one");
  capture->add_flag("--no-proof", capture_options->no_proof, "leave out the proof replay");
  cli.run_on(capture, [&cli, capture_options] { return do_capture(cli, *capture_options); });

  auto inspect_options = std::make_shared<InspectOptions>();
  auto* inspect = cli.verb("inspect", "what a bundle holds; checks every hash", "klab inspect matmul.klab");
  inspect->add_option("bundle", inspect_options->bundle, "NAME.klab")->required();
  inspect->add_flag("--no-verify", inspect_options->no_verify, "do not read the data");
  inspect->add_flag("--prove", inspect_options->prove, "run the proof replay again first");
  inspect->add_flag("--source", inspect_options->source, "print the source that the code object embeds");
  cli.run_on(inspect, [&cli, inspect_options] { return do_inspect(cli, *inspect_options); });

  auto from = std::make_shared<std::string>(), to = std::make_shared<std::string>();
  auto* group = cli.verb("bundle", "one compressed file of a bundle, and back",
                         "klab bundle pack matmul.klab matmul.klabz");
  group->require_subcommand(1);
  auto* pack =
      cli.verb("pack", "make one compressed file", "klab bundle pack matmul.klab matmul.klabz", group);
  pack->add_option("bundle", *from, "NAME.klab")->required();
  pack->add_option("file", *to, "file to make")->required();
  auto* unpack = cli.verb("unpack", "make a bundle of a packed file",
                          "klab bundle unpack matmul.klabz matmul.klab", group);
  unpack->add_option("file", *from, "packed file")->required();
  unpack->add_option("bundle", *to, "NAME.klab to make")->required();
  auto finish = [&cli, from, to](const std::string& verb, Status status) {
    if (!status) return cli.report(status.error());
    if (cli.json)
      cli.print_json(verb, {{"from", *from}, {"to", *to}});
    else
      fmt::print("{} -> {}\n", *from, *to);
    return 0;
  };
  cli.run_on(pack, [from, to, finish] { return finish("bundle pack", bundle::pack(*from, *to)); });
  cli.run_on(unpack, [from, to, finish] { return finish("bundle unpack", bundle::unpack(*from, *to)); });
}

}  // namespace klab::cli
