// SPDX-License-Identifier: Apache-2.0
// The verbs on a kernel's source: find, select, write out.
#include <fmt/format.h>

#include "ops/build.h"
#include "ops/build_cuda.h"

namespace klab::ops {
namespace {

struct OwnSource {
  std::string text;
  WrittenSource written;
};

// PTX that has the kernel: captured as such, or inside the captured cubin.
Result<OwnSource> own_source(Lab& lab, const OpenBundle& opened, std::uint32_t index) {
  const bundle::Manifest& manifest = opened.reader.manifest();
  const bundle::Dispatch& dispatch = opened.dispatch(index);
  if (!is_cuda(manifest)) {
    KLAB_TRY(const CodeFacts facts,
             reflect_code(lab, opened.reader.path() / manifest.code[dispatch.code].file));
    if (facts.reflection.source_text.empty())
      return fail(ErrorCode::not_found, "the captured SPIR-V carries no source text",
                  "klab source find looks for it under a folder");
    return OwnSource{facts.reflection.source_text, {"", "glsl", "text that the captured SPIR-V carries"}};
  }
  for (std::size_t i = 0; i < manifest.code.size(); ++i) {
    const bundle::CodeObject& code = manifest.code[i];
    if (code.kind != "ptx") continue;
    KLAB_TRY_VOID(opened.reader.code(static_cast<std::uint32_t>(i)));  // its hash
    KLAB_TRY(std::string text, read_file(opened.reader.path() / code.file, 1ull << 30));
    const auto facts = reflect_code(lab, opened.reader.path() / code.file);
    if (!facts || !facts->cuda || facts->cuda->kernel(dispatch.entry_point) == nullptr) continue;
    while (!text.empty() && text.back() == '\0') text.pop_back();
    return OwnSource{std::move(text), {"", "ptx", "PTX as the program loaded it"}};
  }
  if (is_hip(manifest))
    return fail(ErrorCode::not_found, "AMD code objects hold no source", "klab source find looks for HIP C++");
  KLAB_TRY_VOID(opened.reader.code(dispatch.code));
  KLAB_TRY(compile::Answer answer,
           lab.compiler().ask(
               {.verb = "ptx",
                .language = "cubin",
                .source = fs::absolute(opened.reader.path() / manifest.code[dispatch.code].file).string()}));
  if (!answer.ok)
    return fail(
        ErrorCode::not_found,
        "the bundle holds no PTX: " + (answer.error ? answer.error->what : std::string("none in its code")),
        "code that is built with -lineinfo (as Triton's is) carries it; klab source find looks for CUDA C++");
  return OwnSource{std::move(answer.disassembly),
                   {"", "ptx", "PTX out of the captured cubin's line information"}};
}

}  // namespace

void to_json(Json& j, const Found& v) {
  j = Json{{"candidates", v.candidates}, {"selected", v.selected}};
  if (v.has_own_source) j["own_source"] = v.own_source;
}

Result<Found> find_source(Lab& lab, const fs::path& path, std::uint32_t dispatch,
                          const variant::FindRequest& request) {
  KLAB_TRY(OpenBundle opened, open_bundle(lab, path));
  KLAB_TRY_VOID(check_dispatch(opened, dispatch));
  Found found;
  KLAB_TRY(found.candidates, variant::find_source(opened.reader, dispatch, request, &lab.compiler()));
  if (is_cuda(opened.reader.manifest()))
    if (own_source(lab, opened, dispatch)) found.has_own_source = true, found.own_source = "the kernel's PTX";
  if (found.candidates.empty()) return found;
  const variant::Candidate& best = found.candidates.front();
  if (best.evidence == variant::Evidence::same_code || best.evidence == variant::Evidence::embedded_source) {
    KLAB_TRY_VOID(select_source(lab, path, best.file, best.options));
    found.selected = best.file;
  }
  return found;
}

Status select_source(Lab& lab, const fs::path& path, const fs::path& file, const compile::Options& options) {
  KLAB_TRY(OpenBundle opened, open_bundle(lab, path));
  KLAB_TRY(const std::string text, read_file(file, 64u << 20));
  KLAB_TRY(session::Store * store, lab.store());
  std::error_code ec;
  const fs::path canonical = fs::weakly_canonical(file, ec);
  return store->select_source(opened.id, (ec ? fs::absolute(file) : canonical).string(),
                              to_string(hash_text(text)), options);
}

Result<WrittenSource> write_source(Lab& lab, const fs::path& path, std::uint32_t dispatch,
                                   const fs::path& file, bool replace) {
  KLAB_TRY(OpenBundle opened, open_bundle(lab, path));
  KLAB_TRY_VOID(check_dispatch(opened, dispatch));
  std::error_code ec;
  if (!replace && fs::exists(fs::symlink_status(file, ec)))
    return fail(ErrorCode::usage, fmt::format("{} is there already", file.string()),
                "another name, or --replace");
  KLAB_TRY(OwnSource own, own_source(lab, opened, dispatch));
  KLAB_TRY_VOID(write_file_atomic(file, own.text, 0644));
  compile::Options options;
  if (own.written.language == "ptx") {
    KLAB_TRY(const CudaBaseline baseline, cuda_baseline(lab, opened, false));
    KLAB_TRY(options.arch, cuda_arch(opened.reader.manifest(), baseline.facts));
  }
  KLAB_TRY_VOID(select_source(lab, path, file, options));
  own.written.file = file.string();
  return std::move(own.written);
}

}  // namespace klab::ops
