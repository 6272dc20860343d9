// SPDX-License-Identifier: Apache-2.0
#include "ops/build_cuda.h"

#include <algorithm>

#include <fmt/format.h>

#include "bundle/hsaco.h"
#include "compile/cache.h"
#include "compile/compile_commands.h"

namespace klab::ops {
namespace {

std::string where(const bundle::Dim3& d) { return fmt::format("{}x{}x{}", d[0], d[1], d[2]); }

std::uint64_t threads_of(const bundle::Dim3& block) {
  return std::uint64_t{std::max(block[0], 1u)} * std::max(block[1], 1u) * std::max(block[2], 1u);
}

// Code of a plain architecture runs on later devices of the same major number, code of an "a" on that one
// only.
bool runs_on(const compile::Arch& arch, std::uint32_t device) {
  if (device == 0 || arch.number == device) return true;
  if (arch.suffix == "a") return false;
  return arch.number / 10 == device / 10 && arch.number < device;
}

Status check_layout(const CudaBaseline& baseline, const compile::KernelFacts& kernel,
                    std::size_t argument_bytes, const std::string& source) {
  if (!kernel.parameters) return {};
  const std::string name = kernel.demangled.empty() ? kernel.name : kernel.demangled;
  if (baseline.layout_known) {
    if (*kernel.parameters == baseline.layout) return {};
    return fail(
        ErrorCode::compile_failed,
        fmt::format("{}: the kernel {} does not take the captured arguments\n  captured: {}\n  variant:  {}",
                    source, name, compile::describe_layout(baseline.layout),
                    compile::describe_layout(*kernel.parameters)),
        "a variant must keep the parameters' order and sizes");
  }
  const auto& p = *kernel.parameters;
  const std::uint64_t bytes = p.empty() ? 0 : std::uint64_t{p.back().offset} + p.back().size;
  if (argument_bytes != 0 && bytes > argument_bytes)
    return fail(
        ErrorCode::compile_failed,
        fmt::format(
            "{}: the kernel {} does not take the captured arguments\n  captured: {} bytes in one buffer"
            "\n  variant:  {}",
            source, name, argument_bytes, compile::describe_layout(p)),
        "a variant must keep the parameters' order and sizes");
  return {};
}

void note_variables(const bundle::Manifest& manifest, const compile::CudaFacts& facts,
                    std::vector<std::string>& notes) {
  std::vector<std::string> seen;
  for (const bundle::Dispatch& d : manifest.dispatches)
    for (const bundle::Region& r : d.regions) {
      const bool variable =
          r.kind == bundle::MemoryKind::module_variable || r.kind == bundle::MemoryKind::constant;
      if (!variable || r.name.empty() || std::find(seen.begin(), seen.end(), r.name) != seen.end()) continue;
      seen.push_back(r.name);
      const auto found = std::find_if(facts.variables.begin(), facts.variables.end(),
                                      [&](const compile::ModuleVariable& v) { return v.name == r.name; });
      if (found == facts.variables.end())
        notes.push_back(
            fmt::format("module variable {} ({} B), which the capture holds, is not in the variant",
                        compile::demangle(r.name), r.size));
      else if (found->size != r.size)
        notes.push_back(fmt::format("module variable {} has {} B in the variant and {} B in the capture",
                                    compile::demangle(r.name), found->size, r.size));
    }
}

// The project's options below the user's own.
Status add_project_options(const BuildRequest& request, const session::VariantRow& row,
                           compile::Options& options, CudaReport& report) {
  fs::path database = request.cuda.compile_commands;
  const bool asked = !database.empty();
  if (request.cuda.no_compile_commands) return {};
  std::vector<fs::path> sources{row.source_file};
  if (!row.target_file.empty() && row.target_file != row.source_file) sources.emplace_back(row.target_file);
  for (const fs::path& source : sources) {
    const fs::path file = asked ? database : compile::find_compile_commands(source);
    if (file.empty()) continue;
    auto found = compile::read_compile_commands(file, source);
    if (!found) {
      if (asked && source == sources.back()) return fail(found.error());
      continue;
    }
    const compile::Options& p = found->options;
    options.include_folders.insert(options.include_folders.end(), p.include_folders.begin(),
                                   p.include_folders.end());
    options.defines.insert(options.defines.begin(), p.defines.begin(), p.defines.end());
    if (options.standard.empty()) options.standard = p.standard;
    options.fast_math = options.fast_math || p.fast_math;
    if (options.max_registers == 0) options.max_registers = p.max_registers;
    options.project = p.project;
    report.compile_commands = found->database;
    return {};
  }
  return {};
}

}  // namespace

std::string cuda_language(const bundle::Manifest& manifest, const fs::path& source, std::string_view text) {
  if (is_hip(manifest)) return kind_of_code(text) == "hsaco" || source.extension() == ".hsaco" ? "hsaco" : "hip";
  if (text.starts_with("\x7f"
                       "ELF"))
    return "cubin";
  const std::string extension = source.extension().string();
  if (extension == ".ptx") return "ptx";
  if (extension == ".cubin") return "cubin";
  return "cuda";
}

Result<CudaBaseline> cuda_baseline(Lab& lab, const OpenBundle& opened, bool instructions) {
  const bundle::Manifest& manifest = opened.reader.manifest();
  const bundle::Dispatch& dispatch = manifest.dispatches[0];
  CudaBaseline baseline;
  KLAB_TRY(CodeFacts facts,
           reflect_code(lab, opened.reader.path() / manifest.code[dispatch.code].file, instructions));
  if (!facts.cuda) return fail(ErrorCode::invalid_data, "the captured code is no cubin, PTX or HSACO");
  baseline.facts = std::move(*facts.cuda);
  if (const compile::KernelFacts* k = baseline.facts.kernel(dispatch.entry_point)) baseline.kernel = *k;
  for (const bundle::Argument& a : dispatch.argument_layout)
    if (!a.hidden()) baseline.layout.push_back({a.offset, a.size});
  baseline.layout_known = !dispatch.argument_layout.empty();
  if (!baseline.layout_known && baseline.kernel && baseline.kernel->parameters) {
    baseline.layout = *baseline.kernel->parameters;
    baseline.layout_known = true;
  }
  return baseline;
}

Result<std::string> cuda_arch(const bundle::Manifest& manifest, const compile::CudaFacts& captured) {
  if (is_hip(manifest)) {
    const std::string& arch = manifest.device.arch.empty() ? captured.arch : manifest.device.arch;
    if (arch.empty())
      return fail(ErrorCode::invalid_data, "neither the bundle's device nor its code says for which processor",
                  "say it with --arch, for example --arch gfx1030");
    return arch;
  }
  const std::uint32_t device = manifest.device.device_id;
  const auto arch = compile::parse_arch(captured.arch);
  if (device == 0) {
    if (!arch)
      return fail(ErrorCode::invalid_data,
                  "neither the bundle's device nor its code says for which architecture",
                  "say it with --arch, for example --arch sm_90");
    return fmt::format("sm_{}{}", arch->number, arch->suffix);
  }
  if (device < 20 || device > 999)
    return fail(ErrorCode::invalid_data, fmt::format("the bundle names compute capability {}", device),
                "--arch sm_90");
  return fmt::format("sm_{}{}", device, arch && arch->number == device ? arch->suffix : "");
}

CudaReport cuda_report(const OpenBundle& opened, const CudaBaseline& baseline,
                       const std::optional<compile::KernelFacts>& kernel,
                       const replay::LaunchOverride& launch) {
  const bundle::Manifest& manifest = opened.reader.manifest();
  const bundle::Dispatch& dispatch = manifest.dispatches[0];
  CudaReport report;
  report.kernel = kernel;
  report.baseline = baseline.kernel;
  std::uint32_t device = manifest.device.device_id;
  if (const auto arch = compile::parse_arch(baseline.facts.arch); device == 0 && arch) device = arch->number;
  const bundle::Dim3 block = launch.block.value_or(dispatch.block);
  const std::uint32_t shared = launch.dynamic_shared_bytes.value_or(dispatch.dynamic_shared_bytes);
  const auto threads = static_cast<std::uint32_t>(std::min<std::uint64_t>(threads_of(block), 1u << 20));
  const bool hip = is_hip(manifest);  // no source for how its registers are handed out
  if (!hip && kernel && block[0] != 0) report.occupancy = compile::occupancy(*kernel, device, threads, shared);
  if (!hip && baseline.kernel && dispatch.block[0] != 0)
    report.baseline_occupancy = compile::occupancy(
        *baseline.kernel, device,
        static_cast<std::uint32_t>(std::min<std::uint64_t>(threads_of(dispatch.block), 1u << 20)),
        dispatch.dynamic_shared_bytes);
  if (!kernel || block[0] == 0) return report;
  const bundle::Dim3& required = kernel->required_block;
  if (required[0] != 0 && required != block)
    report.notes.push_back(
        fmt::format("the kernel is compiled for blocks of {} only, and the launch has {}: the driver "
                    "will refuse it; --block {},{},{} sets the launch",
                    where(required), where(block), required[0], required[1], required[2]));
  if (kernel->max_block[0] != 0 && threads > threads_of(kernel->max_block))
    report.notes.push_back(
        fmt::format("__launch_bounds__ allows {} threads a block, and the launch has {}: the driver "
                    "will refuse it",
                    threads_of(kernel->max_block), threads));
  if (report.occupancy && report.occupancy->blocks == 0)
    report.notes.push_back(fmt::format("no block of {} threads fits on a multiprocessor: {}", threads,
                                       report.occupancy->limited_by));
  return report;
}

Status build_cuda(Lab& lab, const OpenBundle& opened, const BuildRequest& request, const std::string& text,
                  const fs::path& folder, session::VariantRow& row, Built& built) {
  const bundle::Manifest& manifest = opened.reader.manifest();
  const bundle::Dispatch& dispatch = manifest.dispatches[0];
  KLAB_TRY(const CudaBaseline baseline, cuda_baseline(lab, opened, request.instructions));
  row.language = cuda_language(manifest, request.source, text);
  const bool hip = is_hip(manifest);
  compile::Options& o = row.options;
  CudaReport project;
  if ((row.language == "cuda" || row.language == "hip") && (o.arch.empty() || !request.cuda.compile_commands.empty()))
    KLAB_TRY_VOID(add_project_options(request, row, o, project));
  const CudaBuild& c = request.cuda;
  if (!c.arch.empty() && hip) {
    o.arch = c.arch;
  } else if (!c.arch.empty()) {
    KLAB_TRY(const compile::Arch arch, compile::parse_arch(c.arch));
    o.arch = fmt::format("sm_{}{}", arch.number, arch.suffix);
  } else if (o.arch.empty()) {
    KLAB_TRY(o.arch, cuda_arch(manifest, baseline.facts));
  }
  if (!c.compiler.empty()) o.compiler = c.compiler;
  if (!c.hipcc.empty()) o.hipcc = c.hipcc;
  if (!c.standard.empty()) o.standard = c.standard;
  if (!c.kernel.empty()) o.kernel = c.kernel;
  if (c.fast_math) o.fast_math = *c.fast_math;
  if (c.line_info) o.line_info = *c.line_info;
  if (c.max_registers) o.max_registers = *c.max_registers;
  o.extra.insert(o.extra.end(), c.extra.begin(), c.extra.end());
  o.entry_point = dispatch.entry_point;

  row.code = (folder / (hip ? "code.hsaco" : "code.cubin")).string();
  const bool given = row.language == "cubin" || row.language == "hsaco";
  compile::Request job{.verb = "compile",
                       .language = row.language,
                       .source = request.source.string(),
                       .output = row.code,
                       .options = o};
  if (given)
    job.source = row.source_copy;  // nothing to compile, and nothing that a cache would spare
  else
    job.source_text = text;
  // An edited copy elsewhere still finds the headers beside the original.
  if (!row.target_file.empty() && row.target_file != row.source_file)
    job.options.include_folders.push_back(fs::path(row.target_file).parent_path().string());
  if (given) {
    KLAB_TRY(built.compiler, lab.compiler().ask(job));
  } else {
    KLAB_TRY(built.compiler, compile::compile_cached(job, klab_cache() / "builds", 600, &lab.compiler()));
  }
  if (!built.compiler.ok || !built.compiler.cuda) return {};  // the caller tells
  const compile::CudaFacts& facts = *built.compiler.cuda;
  const compile::KernelFacts* kernel = facts.kernel(built.compiler.entry_point);
  if (kernel == nullptr)
    return fail(ErrorCode::internal, "klab-compile named a kernel that is not in its facts");
  KLAB_TRY_VOID(check_layout(baseline, *kernel, dispatch.arguments.size(), request.source.string()));
  if (hip && !manifest.device.arch.empty() && !bundle::arch_fits(facts.arch, manifest.device.arch))
    return fail(ErrorCode::compile_failed,
                fmt::format("{} is code for {}, which does not run on the captured device ({})",
                            request.source.string(), facts.arch, manifest.device.arch),
                "leave --arch out, or build the code object for that device");
  if (const auto arch = compile::parse_arch(facts.arch);
      arch && facts.format == "cubin" && !runs_on(*arch, manifest.device.device_id))
    return fail(ErrorCode::compile_failed,
                fmt::format("{} is code for {}, which does not run on the captured device (sm_{})",
                            request.source.string(), facts.arch, manifest.device.device_id),
                "leave --arch out, or build the cubin for that device");
  if (facts.format == "ptx") {
    std::error_code ec;
    const fs::path renamed = folder / "code.ptx";
    fs::rename(row.code, renamed, ec);
    if (ec) return fail_errno(ec.value(), renamed.string());
    row.code = renamed.string();
    built.compiler.output = row.code;
  }
  std::optional<compile::KernelFacts> figures = *kernel;
  if (request.instructions && facts.format == "cubin") {
    KLAB_TRY(const CodeFacts counted, reflect_code(lab, row.code, true));
    if (counted.cuda) {
      built.compiler.cuda->disassembler = counted.cuda->disassembler;
      built.compiler.cuda->disassembler_problem = counted.cuda->disassembler_problem;
      if (const compile::KernelFacts* k = counted.cuda->kernel(kernel->name))
        figures->instructions = k->instructions;
    }
  }
  KLAB_TRY(row.launch, parse_launch(request.launch, nullptr, manifest.device.api));
  if (built.compiler.entry_point != dispatch.entry_point) row.launch.entry_point = built.compiler.entry_point;
  built.cuda = cuda_report(opened, baseline, figures, row.launch);
  built.cuda->arch = facts.arch;
  built.cuda->compile_commands = project.compile_commands;
  std::vector<std::string> notes;
  if (!built.compiler.why_compiler.empty())
    notes.push_back(fmt::format("{}: {}", built.compiler.compiler, built.compiler.why_compiler));
  if (!project.compile_commands.empty())
    notes.push_back(fmt::format("options of {}", project.compile_commands.string()));
  if (row.launch.entry_point)
    notes.push_back(fmt::format("{} takes the place of {}", compile::demangle(*row.launch.entry_point),
                                compile::demangle(dispatch.entry_point)));
  note_variables(manifest, facts, notes);
  built.cuda->notes.insert(built.cuda->notes.begin(), notes.begin(), notes.end());
  built.same_code =
      baseline.kernel && !kernel->code_hash.empty() && kernel->code_hash == baseline.kernel->code_hash;
  return {};
}

void to_json(Json& j, const CudaReport& v) {
  j = Json{{"arch", v.arch}, {"notes", v.notes}};
  if (v.kernel) j["kernel"] = *v.kernel;
  if (v.baseline) j["baseline"] = *v.baseline;
  if (v.occupancy) j["occupancy"] = *v.occupancy;
  if (v.baseline_occupancy) j["baseline_occupancy"] = *v.baseline_occupancy;
  if (!v.compile_commands.empty()) j["compile_commands"] = v.compile_commands.string();
}

void from_json(const Json& j, CudaReport& v) {
  std::string compile_commands;
  read_optional(j, "arch", v.arch);
  read_optional(j, "notes", v.notes);
  read_optional(j, "compile_commands", compile_commands);
  v.compile_commands = compile_commands;
  if (j.contains("kernel")) v.kernel = j["kernel"].get<compile::KernelFacts>();
  if (j.contains("baseline")) v.baseline = j["baseline"].get<compile::KernelFacts>();
  if (j.contains("occupancy")) v.occupancy = j["occupancy"].get<compile::Occupancy>();
  if (j.contains("baseline_occupancy"))
    v.baseline_occupancy = j["baseline_occupancy"].get<compile::Occupancy>();
}

}  // namespace klab::ops
