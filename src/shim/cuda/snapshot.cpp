// SPDX-License-Identifier: Apache-2.0
#include "shim/cuda/snapshot.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "shim/common/link.h"
#include "shim/common/scan.h"
#include "shim/cuda/driver.h"
#include "shim/launch/records.h"

namespace klab::shim {
namespace {

constexpr std::uint64_t kSymbolAllocations = 1ull << 60;  // ids of what no allocation call made
constexpr std::uint64_t kMaxTexels = 2ull << 30;          // bytes of one array, read whole

std::string hex(std::uint64_t n) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(n));
  return text;
}

}  // namespace

Tracker& tracker() {
  static Tracker* const the = new Tracker;
  return *the;
}

bool Snapshot::scanning() const { return link().config().scope == KLAB_SCOPE_REACHABLE && !ranges_.empty(); }

template <class F>
void Snapshot::each_argument_word(F&& use) const {
  for (std::size_t i = 0; i + 8 <= arguments_.size(); i += 8) {
    std::uint64_t word;
    std::memcpy(&word, &arguments_[i], 8);
    use(word);
  }
}

Snapshot::Step Snapshot::before() {
  arguments_ = pack_arguments(launch_, resolved_.layout, refusal_);
  if (!refusal_.empty()) return Step::refused;
  attributes_ = read_attributes(launch_);
  ranges_ = tracker().ranges();
  textures_ = textures().alive();
  collect_variables();
  confirm_arguments();
  region_of_.assign(ranges_.size(), kNoRegion);
  if (!ranges_.empty()) {
    low_ = ranges_.front().begin;
    high_ = ranges_.back().end();
  }
  each_argument_word([&](std::uint64_t word) {
    reach(word, KLAB_REACHED_ARGUMENT);
    scan_texture_word(word);
  });
  if (link().config().scope == KLAB_SCOPE_ALL)
    for (const Range& r : ranges_) {
      if (r.refusal != nullptr)
        note("memory at " + hex(r.begin), std::string("is left out: it is ") + r.refusal);
      else
        reach(r.begin, KLAB_REACHED_SCOPE);
    }
  if (refusal_.empty()) refusal_ = copier_.open(link().config().deadline_ns);
  if (!refusal_.empty()) return Step::refused;
  send_head();
  // Regions are found while others are sent; each is paid for before its data goes.
  std::size_t paid = 0;
  for (std::uint32_t i = 0; i < regions_.size(); ++i) {
    if (paid < regions_.size()) {
      paid = regions_.size();
      if (!ask_size(false)) return Step::stopped;
    }
    if (!announce(i) || !send(i, KLAB_DATA_PRE, true))
      return refusal_.empty() ? Step::stopped : Step::refused;
  }
  if (count_only_) {
    ask_size(true);
    return Step::stopped;
  }
  send_textures();
  return link().live() ? Step::go : Step::stopped;
}

Snapshot::Step Snapshot::after(double program_ns) {
  for (std::uint32_t i = 0; i < regions_.size(); ++i)
    if (!send(i, KLAB_DATA_POST, false)) return refusal_.empty() ? Step::stopped : Step::refused;
  klab_capture_end end{};
  end.program_ns = program_ns;
  link().send(&end, sizeof end, KLAB_CAPTURE_END);
  return Step::go;
}

// Variables of the kernel's module are there at every launch: code refers to them without any argument.
void Snapshot::collect_variables() {
  const Driver& d = driver();
  CUlibrary library = nullptr;
  if (resolved_.kernel != nullptr && d.KernelGetLibrary != nullptr &&
      d.KernelGetLibrary(&library, resolved_.kernel) != CUDA_SUCCESS)
    library = nullptr;
  std::size_t lost = 0;
  std::string names, first_error;
  for (const Variable& v : Cubin(resolved_.code->bytes).variables()) {
    CUdeviceptr address = 0;
    std::size_t size = 0;
    CUresult result = CUDA_ERROR_NOT_FOUND;
    if (resolved_.module != nullptr)
      result = d.ModuleGetGlobal(&address, &size, resolved_.module, v.name.c_str());
    if (result != CUDA_SUCCESS && library != nullptr && d.LibraryGetGlobal != nullptr)
      result = d.LibraryGetGlobal(&address, &size, library, v.name.c_str());
    if (result != CUDA_SUCCESS || address == 0 || size == 0) {
      // Texts that the compiler made ("$str") have no name to the driver, and come with the code.
      if (v.name[0] == '$') continue;
      if (++lost <= 8) names += (names.empty() ? "" : ", ") + v.name;
      if (first_error.empty())
        first_error = result != CUDA_SUCCESS ? failed("cuModuleGetGlobal", result) : "it has no memory";
      continue;
    }
    Region r;
    r.begin = address, r.size = size;
    r.memory = v.constant ? KLAB_MEMORY_CONSTANT : KLAB_MEMORY_MODULE_VARIABLE;
    r.reached = KLAB_REACHED_SYMBOL;
    r.allocation = kSymbolAllocations + regions_.size();
    r.name = v.name;
    Range range;
    range.begin = address, range.size = size, range.id = regions_.size();
    variables_.push_back(range);
    total_ += size;
    regions_.push_back(std::move(r));
  }
  if (lost != 0)
    note((lost == 1 ? "module variable " : std::to_string(lost) + " module variables: ") + names +
             (lost > 8 ? ", ..." : ""),
         "not captured: " + first_error);
  std::sort(variables_.begin(), variables_.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
}

// What was allocated before we listened, or by a call that is not known here: the driver knows it by address.
void Snapshot::confirm_arguments() {
  const Driver& d = driver();
  std::vector<Range> more;
  each_argument_word([&](std::uint64_t word) {
    if (word < 65536 || word >> 57 != 0 || find_range(ranges_, word) != nullptr ||
        find_range(variables_, word) != nullptr)
      return;
    CUdeviceptr begin = 0;
    std::size_t size = 0;
    if (d.PointerGetAttribute(&begin, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, word) != CUDA_SUCCESS ||
        d.PointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, word) != CUDA_SUCCESS || size == 0 ||
        begin > word || word - begin >= size)
      return;
    for (const Range& r : more)
      if (r.begin == begin) return;
    for (const Range& r : ranges_)
      if (r.begin < begin + size && begin < r.end()) return;
    unsigned type = 0, managed = 0;
    d.PointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, word);
    d.PointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, word);
    Range r;
    r.begin = begin, r.size = size;
    r.id = kSymbolAllocations / 2 + more.size();
    r.memory = managed != 0                 ? KLAB_MEMORY_MANAGED
               : type == CU_MEMORYTYPE_HOST ? KLAB_MEMORY_PINNED_HOST
                                            : KLAB_MEMORY_DEVICE;
    more.push_back(r);
  });
  if (more.empty()) return;
  ranges_.insert(ranges_.end(), more.begin(), more.end());
  std::sort(ranges_.begin(), ranges_.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
}

std::uint32_t Snapshot::reach(std::uint64_t address, std::uint32_t how) {
  const Range* range = find_range(ranges_, address);
  if (range == nullptr) return kNoRegion;
  std::uint32_t& region = region_of_[static_cast<std::size_t>(range - ranges_.data())];
  if (region != kNoRegion) return region;
  if (range->refusal != nullptr) {
    if (refusal_.empty()) refusal_ = "it reaches " + std::string(range->refusal) + " at " + hex(range->begin);
    return kNoRegion;
  }
  Region r;
  r.begin = range->begin, r.size = range->size;
  r.memory = range->memory;
  r.reached = how;
  r.allocation = range->id;
  // Mapped host memory need not be mapped for the CPU.
  r.read_by_host = range->memory == KLAB_MEMORY_PINNED_HOST && !range->mapped;
  region = static_cast<std::uint32_t>(regions_.size());
  total_ += r.size;
  regions_.push_back(std::move(r));
  return region;
}

std::uint32_t Snapshot::reach_array(CUarray array, std::uint32_t how, klab_texture& record) {
  CUDA_ARRAY3D_DESCRIPTOR desc{};
  if (const CUresult result = driver().Array3DGetDescriptor(&desc, array); result != CUDA_SUCCESS) {
    refusal_ = "the array of a texture could not be examined: " + failed("cuArray3DGetDescriptor", result);
    return kNoRegion;
  }
  if ((desc.Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)) != 0) {
    refusal_ = "it reaches a sparse array";
    return kNoRegion;
  }
  const unsigned texel = format_bytes(desc.Format) * desc.NumChannels;
  if (texel == 0) {
    refusal_ = "it reaches an array of format " + std::to_string(static_cast<int>(desc.Format));
    return kNoRegion;
  }
  record.width = desc.Width, record.height = desc.Height, record.depth = desc.Depth;
  record.channels = desc.NumChannels;
  record.array_flags = desc.Flags;
  if (const auto it = arrays_.find(array); it != arrays_.end()) return it->second;
  Region r;
  r.array = array;
  r.memory = KLAB_MEMORY_IMAGE;
  r.reached = how;
  r.row_bytes = desc.Width * texel;
  r.rows = std::max<std::size_t>(desc.Height, 1);
  r.slices = std::max<std::size_t>(desc.Depth, 1);
  r.size = std::uint64_t{r.row_bytes} * r.rows * r.slices;
  if (r.size == 0 || r.size > kMaxTexels) {
    refusal_ = "it reaches an array of " + std::to_string(r.size) + " bytes";
    return kNoRegion;
  }
  r.allocation = kSymbolAllocations + regions_.size();
  total_ += r.size;
  const auto region = static_cast<std::uint32_t>(regions_.size());
  regions_.push_back(std::move(r));
  return arrays_[array] = region;
}

void Snapshot::scan_texture_word(std::uint64_t word) {
  if (!textures_.empty() && textures_.count(word) != 0) reach_texture(word);
}

void Snapshot::reach_texture(std::uint64_t handle) {
  for (const Found& f : found_)
    if (f.record.handle == handle) return;
  if (!refusal_.empty()) return;
  const Texture& t = textures_.at(handle);
  Found found{};
  found.texture = &t;
  klab_texture& r = found.record;
  r.handle = handle;
  r.surface = t.surface ? 1 : 0;
  r.region = kNoRegion;
  CUarray_format format{};
  if (t.has_view) refusal_ = "it reaches a texture object with a resource view";
  switch (t.resource.resType) {
    case CU_RESOURCE_TYPE_ARRAY: {
      CUDA_ARRAY3D_DESCRIPTOR desc{};
      driver().Array3DGetDescriptor(&desc, t.resource.res.array.hArray);
      format = desc.Format;
      r.region = reach_array(t.resource.res.array.hArray, KLAB_REACHED_ARGUMENT, r);
      break;
    }
    case CU_RESOURCE_TYPE_LINEAR: {
      const auto& linear = t.resource.res.linear;
      format = linear.format;
      r.channels = linear.numChannels;
      r.linear_bytes = linear.sizeInBytes;
      if (const unsigned texel = format_bytes(format) * r.channels; texel != 0)
        r.width = linear.sizeInBytes / texel;
      r.region = reach(linear.devPtr, KLAB_REACHED_ARGUMENT);
      if (r.region != kNoRegion) r.offset = linear.devPtr - regions_[r.region].begin;
      break;
    }
    case CU_RESOURCE_TYPE_PITCH2D: {
      const auto& pitch = t.resource.res.pitch2D;
      format = pitch.format;
      r.channels = pitch.numChannels;
      r.width = pitch.width, r.height = pitch.height, r.pitch = pitch.pitchInBytes;
      r.region = reach(pitch.devPtr, KLAB_REACHED_ARGUMENT);
      if (r.region != kNoRegion) r.offset = pitch.devPtr - regions_[r.region].begin;
      break;
    }
    default:
      refusal_ = "it reaches a texture of a mipmapped array";
  }
  if (!refusal_.empty()) return;
  const char* name = format_name(format);
  if (name == nullptr)
    refusal_ = "it reaches a texture of format " + std::to_string(static_cast<int>(format));
  else if (r.region == kNoRegion)
    refusal_ = "it reaches a texture whose memory is not known here";
  else
    found.format = name;
  if (refusal_.empty()) found_.push_back(std::move(found));
}

void Snapshot::send_textures() {
  static constexpr const char* kResources[] = {"array", "mipmap", "linear", "pitch2d"};
  for (Found& f : found_) {
    const std::string_view resource = kResources[static_cast<int>(f.texture->resource.resType) & 3];
    const std::string_view sampling(reinterpret_cast<const char*>(&f.texture->sampling),
                                    f.texture->surface ? 0 : sizeof f.texture->sampling);
    f.record.resource_length = static_cast<std::uint32_t>(resource.size());
    f.record.format_length = static_cast<std::uint32_t>(f.format.size());
    f.record.sampling_length = static_cast<std::uint32_t>(sampling.size());
    link().send(&f.record, sizeof f.record, KLAB_TEXTURE, {resource, f.format, sampling});
  }
}

void Snapshot::send_head() {
  const Driver& d = driver();
  klab_capture_begin begin{};
  begin.device = device_;
  begin.kernel = kernel_.id;
  begin.call = launch_.call;
  begin.nth = nth_;
  begin.sequence = sequence_;
  std::copy(launch_.grid, launch_.grid + 3, begin.grid);
  link().send(&begin, sizeof begin, KLAB_CAPTURE_BEGIN);
  klab_launch record{};
  std::copy(launch_.block, launch_.block + 3, record.block);
  std::copy(attributes_.cluster, attributes_.cluster + 3, record.cluster);
  record.dynamic_shared_bytes = launch_.dynamic_shared;
  record.argument_bytes = static_cast<std::uint32_t>(arguments_.size());
  link().send(&record, sizeof record, KLAB_LAUNCH,
              {std::string_view(reinterpret_cast<const char*>(arguments_.data()), arguments_.size())});
  if (resolved_.layout) {
    std::vector<klab_argument> layout;
    for (const Parameter& p : *resolved_.layout)
      if (p.offset + p.size <= arguments_.size()) layout.push_back({p.offset, p.size});
    link().send_list(KLAB_ARGUMENTS, device_, layout.data(), sizeof(klab_argument), layout.size());
  }
  for (const Attribute& a : attributes_.set) send_attribute(a.name, a.value);
  for (const auto& [what, why] : attributes_.left_out) note(what, "is left out: " + why);
  // Of the function: what the program set, and a kernel does not run the same without.
  auto of_function = [&](CUfunction_attribute which, int fallback) {
    int value = 0;
    return d.FuncGetAttribute(&value, which, resolved_.function) == CUDA_SUCCESS ? value : fallback;
  };
  const int fixed = of_function(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, 0);
  const int dynamic = of_function(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 0);
  if (dynamic + fixed > 48 * 1024) send_attribute("function.max_dynamic_shared_size_bytes", dynamic);
  if (const int carveout = of_function(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, -1); carveout >= 0)
    send_attribute("function.preferred_shared_memory_carveout", carveout);
  if (of_function(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 0) != 0)
    send_attribute("function.non_portable_cluster_size_allowed", 1);
  if (const int policy = of_function(CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, 0); policy != 0)
    send_attribute("function.cluster_scheduling_policy_preference", policy);
}

bool Snapshot::ask_size(bool final) {
  const std::uint32_t answer = shim::ask_size(total_, final);
  if (answer == KLAB_COUNT_ONLY) count_only_ = true;
  return answer == KLAB_GO || answer == KLAB_COUNT_ONLY;
}

bool Snapshot::announce(std::uint32_t index) {
  if (count_only_) return true;
  const Region& r = regions_[index];
  klab_region record{};
  record.region = index;
  record.reached_by = r.reached;
  record.address = r.begin;
  record.bytes = r.size;
  record.allocation = r.allocation;
  record.allocation_offset = r.allocation_offset;
  record.memory = r.memory;
  return send_region(record, r.name);
}

bool Snapshot::send(std::uint32_t index, std::uint32_t kind, bool first) {
  const Region r = regions_[index];  // a copy: reaching more regions moves the vector
  if (r.array != nullptr) {
    if (count_only_) return true;
    std::vector<std::byte> texels;
    if (!copier_.read_array(r.array, r.row_bytes, r.rows, r.slices, texels, refusal_)) return false;
    for (std::size_t at = 0; at < texels.size(); at += KLAB_SLOT_BYTES)
      if (!link().send_data(kind, index, at, texels.data() + at,
                            std::min<std::size_t>(KLAB_SLOT_BYTES, texels.size() - at)))
        return false;
    return true;
  }
  const bool for_textures = first && r.reached == KLAB_REACHED_SYMBOL && !textures_.empty();
  Copier::Scan see;
  if (first && (scanning() || for_textures))
    see = [&](const std::byte* bytes, std::size_t size) { scan(bytes, size, for_textures); };
  return copier_.send(kind, index, r.begin, r.size, r.read_by_host, count_only_, see, refusal_) &&
         refusal_.empty();
}

void Snapshot::scan(const std::byte* bytes, std::size_t size, bool for_textures) {
  if (for_textures)
    scan_words(bytes, size, 0, ~std::uint64_t{0}, [&](std::uint64_t word) { scan_texture_word(word); });
  if (!scanning()) return;
  scan_words(bytes, size, low_, high_ - low_, [&](std::uint64_t word) { reach(word, KLAB_REACHED_POINTER); });
}

}  // namespace klab::shim
