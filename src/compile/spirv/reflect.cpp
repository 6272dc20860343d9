// SPDX-License-Identifier: Apache-2.0
// One pass over what SPIRV-Tools decoded. Sizes and constants are worked out where they are declared, from
// what was declared before: no recursion, so no input can exhaust the stack.
#include "compile/spirv/reflect.h"

#include <map>
#include <set>
#include <unordered_map>

#include <fmt/format.h>
#include <spirv-tools/libspirv.hpp>
#include <spirv/unified1/spirv.hpp11>

#include "compile/spirv/constants.h"
#include "compile/spirv/debug_source.h"
#include "compile/spirv/layout.h"
#include "compile/spirv/operands.h"

namespace klab::compile {
namespace {

constexpr std::uint32_t kCooperativeMatrixMulAddKHR = 4459;  // newer than these headers

struct Type {
  spv::Op op = spv::Op::OpNop;
  std::uint32_t element = 0;           // of vectors, matrices, arrays, pointers, sampled images
  std::uint64_t size = 0, align = 1;   // with explicit offsets and strides where there are any
  std::uint64_t count = 1;             // array length; 0: runtime
  bool known = false;                  // size is right
  bool fixed = true;                   // no runtime array inside
  std::uint32_t dim = 0, sampled = 0;  // images
  std::uint32_t storage = 0;           // pointers
  std::uint64_t stride = 0;            // arrays
  std::vector<ReflectedField> fields;  // scalars in it; empty: not known, or too many
  std::uint64_t tail_offset = 0;       // struct: of its runtime array
  std::uint32_t tail = 0;              // that array's type; 0: it has none
};

struct Member {
  std::uint64_t offset = 0, matrix_stride = 0;
  bool has_offset = false, row_major = false, non_writable = false, non_readable = false;
};

struct Marks {  // decorations of one id
  std::uint32_t set = 0, binding = 0, spec_id = 0, array_stride = 0;
  bool has_set = false, has_binding = false, has_spec_id = false, block = false, buffer_block = false;
  bool non_writable = false, non_readable = false, workgroup_size = false;
  std::map<std::uint32_t, Member> members;
};

struct Variable {
  std::uint32_t id = 0, type = 0, storage = 0;
};

class Walk {
 public:
  Reflection out;

  spv_result_t header(std::uint32_t version) {
    out.version = fmt::format("{}.{}", (version >> 16) & 0xff, (version >> 8) & 0xff);
    return SPV_SUCCESS;
  }

  spv_result_t instruction(const spv_parsed_instruction_t& in) {
    const auto op = static_cast<spv::Op>(in.opcode);
    if (in_function_) count(in, op);
    switch (op) {
      case spv::Op::OpFunction:
        in_function_ = true;
        break;
      case spv::Op::OpFunctionEnd:
        in_function_ = false;
        break;
      case spv::Op::OpCapability:
        capability_words_.insert(capability_words_.end(), in.words, in.words + in.num_words);
        break;
      case spv::Op::OpMemoryModel:
        out.uses_physical_addresses = word(in, 0) == 5348;
        break;
      case spv::Op::OpEntryPoint:
        if (word(in, 0) == static_cast<std::uint32_t>(spv::ExecutionModel::GLCompute)) {
          if (out.entry_points.empty()) entry_ = word(in, 1);
          out.entry_points.push_back(text(in, 2));
        }
        break;
      case spv::Op::OpExecutionMode:
        execution_mode(in);
        break;
      case spv::Op::OpExecutionModeId:
        execution_mode(in);
        break;
      case spv::Op::OpString:
        debug_.string(in);
        break;
      case spv::Op::OpName:
        names_[word(in, 0)] = text(in, 1);
        break;
      case spv::Op::OpMemberName:
        member_names_[{word(in, 0), word(in, 1)}] = text(in, 2);
        break;
      case spv::Op::OpLine:
        debug_.line(in);
        break;
      case spv::Op::OpSource:
        debug_.source(in);
        break;
      case spv::Op::OpSourceContinued:
        debug_.source_continued(in);
        break;
      case spv::Op::OpExtInst:
        debug_.extended(in, constants_);
        break;
      case spv::Op::OpDecorate:
        decorate(in);
        break;
      case spv::Op::OpMemberDecorate:
        decorate_member(in);
        break;
      case spv::Op::OpVariable:
        if (!in_function_) variables_.push_back({in.result_id, in.type_id, word(in, 2)});
        break;
      default:
        declare(in, op);
        break;
    }
    return SPV_SUCCESS;
  }

  void finish() {
    finish_block();
    finish_variables();
    finish_specs();
    capabilities();
    debug_.finish(out);
  }

 private:
  void count(const spv_parsed_instruction_t& in, spv::Op op) {
    switch (op) {
      case spv::Op::OpFunction:
      case spv::Op::OpFunctionParameter:
      case spv::Op::OpFunctionEnd:
      case spv::Op::OpLabel:
      case spv::Op::OpLine:
      case spv::Op::OpNoLine:
        return;
      case spv::Op::OpExtInst:
        if (is_debug_set(in.ext_inst_type) || is_non_semantic_set(in.ext_inst_type)) return;
        break;
      default:
        break;
    }
    ++out.instructions;
    const std::uint32_t code = in.opcode;
    if (op == spv::Op::OpCooperativeMatrixMulAddNV || code == kCooperativeMatrixMulAddKHR)
      ++out.matrix_instructions;
    if (op == spv::Op::OpControlBarrier || op == spv::Op::OpMemoryBarrier) ++out.barrier_instructions;
    const bool float_atomic =
        op == spv::Op::OpAtomicFAddEXT || op == spv::Op::OpAtomicFMinEXT || op == spv::Op::OpAtomicFMaxEXT;
    if (float_atomic) ++out.float_atomics;
    if (float_atomic || (op >= spv::Op::OpAtomicLoad && op <= spv::Op::OpAtomicXor) ||
        op == spv::Op::OpAtomicFlagTestAndSet || op == spv::Op::OpAtomicFlagClear)
      ++out.atomic_instructions;
  }
  // What tells such sets apart is not in SPIRV-Tools' public headers.
  static bool is_debug_set(spv_ext_inst_type_t t) {
    return t == SPV_EXT_INST_TYPE_DEBUGINFO || t == SPV_EXT_INST_TYPE_OPENCL_DEBUGINFO_100;
  }
  static bool is_non_semantic_set(spv_ext_inst_type_t t) {
    return t == SPV_EXT_INST_TYPE_NONSEMANTIC_CLSPVREFLECTION ||
           t == SPV_EXT_INST_TYPE_NONSEMANTIC_SHADER_DEBUGINFO_100 ||
           t == SPV_EXT_INST_TYPE_NONSEMANTIC_UNKNOWN;
  }

  void execution_mode(const spv_parsed_instruction_t& in) {
    const auto mode = static_cast<spv::ExecutionMode>(word(in, 1));
    const bool by_id = mode == spv::ExecutionMode::LocalSizeId;
    if (word(in, 0) != entry_ || (mode != spv::ExecutionMode::LocalSize && !by_id)) return;
    local_size_by_id_ = by_id;
    for (std::uint32_t i = 0; i < 3; ++i) local_size_[i] = word(in, 2 + i);
  }

  void decorate(const spv_parsed_instruction_t& in) {
    const auto kind = static_cast<spv::Decoration>(word(in, 1));
    Marks& m = marks_[word(in, 0)];
    const std::uint32_t value = word(in, 2);
    switch (kind) {
      case spv::Decoration::DescriptorSet:
        m.set = value, m.has_set = true;
        break;
      case spv::Decoration::Binding:
        m.binding = value, m.has_binding = true;
        break;
      case spv::Decoration::SpecId:
        m.spec_id = value, m.has_spec_id = true;
        break;
      case spv::Decoration::ArrayStride:
        m.array_stride = value;
        break;
      case spv::Decoration::Block:
        m.block = true;
        break;
      case spv::Decoration::BufferBlock:
        m.buffer_block = true;
        break;
      case spv::Decoration::NonWritable:
        m.non_writable = true;
        break;
      case spv::Decoration::NonReadable:
        m.non_readable = true;
        break;
      case spv::Decoration::BuiltIn:
        m.workgroup_size = value == static_cast<std::uint32_t>(spv::BuiltIn::WorkgroupSize);
        break;
      default:
        break;
    }
  }
  void decorate_member(const spv_parsed_instruction_t& in) {
    Member& m = marks_[word(in, 0)].members[word(in, 1)];
    const std::uint32_t value = word(in, 3);
    switch (static_cast<spv::Decoration>(word(in, 2))) {
      case spv::Decoration::Offset:
        m.offset = value, m.has_offset = true;
        break;
      case spv::Decoration::MatrixStride:
        m.matrix_stride = value;
        break;
      case spv::Decoration::RowMajor:
        m.row_major = true;
        break;
      case spv::Decoration::NonWritable:
        m.non_writable = true;
        break;
      case spv::Decoration::NonReadable:
        m.non_readable = true;
        break;
      default:
        break;
    }
  }
  const Marks& marks(std::uint32_t id) const {
    static const Marks kNone;
    auto it = marks_.find(id);
    return it == marks_.end() ? kNone : it->second;
  }
  const Type& type(std::uint32_t id) const {
    static const Type kNone;
    auto it = types_.find(id);
    return it == types_.end() ? kNone : it->second;
  }

  void declare(const spv_parsed_instruction_t& in, spv::Op op) {
    if (in_function_) return;
    Type t;
    t.op = op;
    switch (op) {
      case spv::Op::OpTypeBool:
        t.size = t.align = 4, t.known = true, constants_.bool_type(in.result_id);
        break;
      case spv::Op::OpTypeInt:
      case spv::Op::OpTypeFloat:
        t.size = t.align = std::max<std::uint64_t>(word(in, 1) / 8, 1);
        t.known = word(in, 1) % 8 == 0 && word(in, 1) <= 64;
        if (t.known)
          t.fields = {{0, 1, fmt::format("{}{}", op == spv::Op::OpTypeFloat ? "f" : word(in, 2) != 0 ? "i" : "u", word(in, 1)), ""}};
        if (op == spv::Op::OpTypeInt)
          constants_.int_type(in.result_id, word(in, 1), word(in, 2) != 0);
        else
          constants_.float_type(in.result_id, word(in, 1));
        break;
      case spv::Op::OpTypeVector: {
        const Type& e = type(word(in, 1));
        t.element = word(in, 1), t.count = word(in, 2), t.known = e.known;
        t.size = multiply(e.size, t.count), t.align = multiply(e.size, t.count == 3 ? 4 : t.count);
        t.fields = repeated(e.fields, e.size, e.size, t.count);
        break;
      }
      case spv::Op::OpTypeMatrix: {  // without a stride: columns as vectors in an array
        const Type& e = type(word(in, 1));
        t.element = word(in, 1), t.count = word(in, 2), t.known = e.known, t.align = e.align;
        t.size = multiply(round_up(e.size, e.align), t.count);
        t.fields = repeated(e.fields, e.size, round_up(e.size, e.align), t.count);
        break;
      }
      case spv::Op::OpTypeArray:
      case spv::Op::OpTypeRuntimeArray: {
        const Type& e = type(word(in, 1));
        t.element = word(in, 1), t.align = e.align, t.fixed = e.fixed, t.known = e.known;
        const std::uint64_t stride = marks(in.result_id).array_stride != 0 ? marks(in.result_id).array_stride
                                                                           : round_up(e.size, e.align);
        t.stride = stride;
        if (op == spv::Op::OpTypeRuntimeArray) {
          t.count = 0, t.size = 0, t.fixed = false;
        } else {
          const auto length = constants_.unsigned_of(word(in, 2));
          t.known = t.known && length.has_value();
          t.count = length.value_or(0), t.size = multiply(stride, t.count);
          t.fields = repeated(e.fields, e.size, stride, t.count);
        }
        break;
      }
      case spv::Op::OpTypeStruct:
        declare_struct(in, t);
        break;
      case spv::Op::OpTypePointer:
        t.storage = word(in, 1), t.element = word(in, 2);
        t.size = t.align = 8, t.known = t.storage == 5349;  // PhysicalStorageBuffer: an address
        if (t.known) t.fields = {{0, 1, "u64", ""}};
        break;
      case spv::Op::OpTypeForwardPointer:
        // The struct that uses it comes before the pointer itself.
        t.op = spv::Op::OpTypePointer, t.storage = word(in, 1), t.size = t.align = 8,
        t.known = t.storage == 5349;
        types_[word(in, 0)] = t;
        return;
      case spv::Op::OpTypeImage:
        t.dim = word(in, 2), t.sampled = word(in, 6);
        break;
      case spv::Op::OpTypeSampledImage:
        t.element = word(in, 1);
        break;
      case spv::Op::OpTypeSampler:
      case spv::Op::OpTypeAccelerationStructureKHR:
        break;
      default:
        constants_.declare(in);
        return;
    }
    types_[in.result_id] = t;
  }

  void declare_struct(const spv_parsed_instruction_t& in, Type& t) {
    const Marks& m = marks(in.result_id);
    t.known = true;
    bool listed = true;
    for (std::uint32_t i = 1; i < in.num_operands; ++i) {
      const Type& e = type(word(in, i));
      std::uint64_t size = e.size, at = round_up(t.size, e.align);
      bool known = e.known;
      if (auto found = m.members.find(i - 1); found != m.members.end()) {
        const Member& member = found->second;
        if (member.has_offset) at = member.offset;
        if (member.matrix_stride != 0) size = with_matrix_stride(word(in, i), member, known);
      }
      if (e.op == spv::Op::OpTypeRuntimeArray) {
        t.tail = word(in, i), t.tail_offset = at;
      } else {
        std::vector<ReflectedField> fields = e.fields;
        const auto found = m.members.find(i - 1);
        // A matrix is laid out by its member's stride.
        if (found != m.members.end() && found->second.matrix_stride != 0)
          fields = e.op == spv::Op::OpTypeMatrix
                       ? repeated(type(e.element).fields, type(e.element).size, found->second.matrix_stride,
                                  found->second.row_major ? 0 : e.count)
                       : std::vector<ReflectedField>{};
        listed = listed && !fields.empty() && t.fields.size() + fields.size() <= kMostFields && at <= UINT32_MAX;
        const auto name = member_names_.find({in.result_id, i - 1});
        for (ReflectedField& f : fields) {
          f.offset += static_cast<std::uint32_t>(at);
          if (name != member_names_.end()) f.name = f.name.empty() ? name->second : name->second + "." + f.name;
          if (listed) t.fields.push_back(std::move(f));
        }
      }
      t.known = t.known && known;
      t.fixed = t.fixed && e.fixed;
      t.align = std::max(t.align, e.align);
      t.size = std::max(t.size, add(at, size));
    }
    if (!listed) t.fields.clear();
    structs_[in.result_id] = in.num_operands - 1u;
  }
  // A matrix, or arrays of matrices, laid out by the member's stride. Bounded: arrays were declared before.
  std::uint64_t with_matrix_stride(std::uint32_t id, const Member& member, bool& known) const {
    std::uint64_t outer = 1;
    const Type* t = &type(id);
    for (int depth = 0; t->op == spv::Op::OpTypeArray || t->op == spv::Op::OpTypeRuntimeArray; ++depth) {
      if (marks(id).array_stride != 0) return t->size;  // an explicit array stride says all
      if (depth > 8) {
        known = false;
        return 0;
      }
      outer = multiply(outer, t->count);
      id = t->element, t = &type(id);
    }
    if (t->op != spv::Op::OpTypeMatrix) return t->size;
    const std::uint64_t vectors = member.row_major ? type(t->element).count : t->count;
    return multiply(outer, multiply(vectors, member.matrix_stride));
  }

  void finish_block() {
    for (const auto& [id, m] : marks_) {
      if (!m.workgroup_size) continue;
      if (auto size = constants_.triple(id, out.block_from_spec)) {
        out.block = *size;
        return;
      }
    }
    if (!local_size_by_id_) {
      out.block = local_size_;
      return;
    }
    for (int i = 0; i < 3; ++i) {
      out.block_from_spec = out.block_from_spec || constants_.from_spec(local_size_[i]);
      out.block[i] = static_cast<std::uint32_t>(constants_.unsigned_of(local_size_[i]).value_or(0));
    }
  }

  void finish_variables() {
    bool shared_known = true;
    std::uint64_t shared = 0, shared_blocks = 0;
    for (const Variable& v : variables_) {
      const std::uint32_t pointee = type(v.type).element;
      const Type& t = type(pointee);
      switch (static_cast<spv::StorageClass>(v.storage)) {
        case spv::StorageClass::Workgroup:
          shared_known = shared_known && t.known && t.fixed;
          // Explicitly laid out blocks may alias each other; others follow one another.
          if (marks(pointee).block)
            shared_blocks = std::max(shared_blocks, t.size);
          else
            shared = add(round_up(shared, t.align), t.size);
          break;
        case spv::StorageClass::PushConstant:
          if (t.known && t.size <= UINT32_MAX)
            out.push_constant_bytes = std::max(out.push_constant_bytes, static_cast<std::uint32_t>(t.size));
          break;
        case spv::StorageClass::Uniform:
        case spv::StorageClass::UniformConstant:
        case spv::StorageClass::StorageBuffer:
          if (marks(v.id).has_binding || marks(v.id).has_set) bind(v, pointee);
          break;
        default:
          break;
      }
    }
    out.shared_bytes = shared_known ? add(shared, shared_blocks) : 0;
    if (out.shared_bytes == UINT64_MAX) out.shared_bytes = 0;
    std::stable_sort(out.bindings.begin(), out.bindings.end(), [](const auto& a, const auto& b) {
      return std::pair(a.set, a.binding) < std::pair(b.set, b.binding);
    });
  }

  void bind(const Variable& v, std::uint32_t pointee) {
    const Marks& m = marks(v.id);
    ReflectedBinding b;
    b.set = m.set, b.binding = m.binding;
    std::uint64_t count = 1;
    for (int depth = 0; depth < 8; ++depth) {
      const Type& t = type(pointee);
      if (t.op != spv::Op::OpTypeArray && t.op != spv::Op::OpTypeRuntimeArray) break;
      count = multiply(count, t.count);
      pointee = t.element;
    }
    b.count = count <= UINT32_MAX ? static_cast<std::uint32_t>(count) : 0;
    const Type& t = type(pointee);
    const Marks& block = marks(pointee);
    b.type = binding_type(v, t, block);
    if (auto n = names_.find(v.id); n != names_.end()) b.name = n->second;
    if (auto n = names_.find(pointee); b.name.empty() && n != names_.end()) b.name = n->second;
    b.read_only = m.non_writable || b.type == "uniform_buffer";
    b.write_only = m.non_readable;
    if (t.op == spv::Op::OpTypeStruct) {
      b.size = t.known && t.size != UINT64_MAX ? t.size : 0;
      b.fields = t.fields;
      if (t.tail != 0) {
        const Type& array = type(t.tail);
        b.element_offset = t.tail_offset;
        b.element_fields = type(array.element).fields;
        b.element_stride = array.stride <= UINT32_MAX ? static_cast<std::uint32_t>(array.stride) : 0;
        // A plain array's element is known by the array's name.
        const auto name = member_names_.find({pointee, structs_.at(pointee) - 1});
        if (b.element_fields.size() == 1 && name != member_names_.end()) b.element_fields[0].name = name->second;
      }
      const auto members = structs_.at(pointee);
      std::uint64_t read_only = 0, write_only = 0;
      for (const auto& [index, member] : block.members) {
        if (index >= members) continue;
        read_only += member.non_writable ? 1 : 0;
        write_only += member.non_readable ? 1 : 0;
      }
      b.read_only = b.read_only || (members > 0 && read_only == members);
      b.write_only = b.write_only || (members > 0 && write_only == members);
    }
    out.bindings.push_back(std::move(b));
  }

  std::string binding_type(const Variable& v, const Type& t, const Marks& block) const {
    if (v.storage == static_cast<std::uint32_t>(spv::StorageClass::StorageBuffer)) return "storage_buffer";
    if (v.storage == static_cast<std::uint32_t>(spv::StorageClass::Uniform))
      return block.buffer_block ? "storage_buffer" : "uniform_buffer";
    switch (t.op) {
      case spv::Op::OpTypeSampler:
        return "sampler";
      case spv::Op::OpTypeSampledImage:
        return type(t.element).dim == static_cast<std::uint32_t>(spv::Dim::Buffer) ? "uniform_texel_buffer"
                                                                                   : "combined_image_sampler";
      case spv::Op::OpTypeAccelerationStructureKHR:
        return "acceleration_structure";
      case spv::Op::OpTypeImage:
        if (t.dim == static_cast<std::uint32_t>(spv::Dim::SubpassData)) return "input_attachment";
        if (t.dim == static_cast<std::uint32_t>(spv::Dim::Buffer))
          return t.sampled == 2 ? "storage_texel_buffer" : "uniform_texel_buffer";
        return t.sampled == 2 ? "storage_image" : "sampled_image";
      default:
        return "unknown";
    }
  }

  void finish_specs() {
    for (const auto& [id, m] : marks_) {
      if (!m.has_spec_id) continue;
      ReflectedSpec spec;
      spec.id = m.spec_id;
      if (auto n = names_.find(id); n != names_.end()) spec.name = n->second;
      if (constants_.describe(id, spec)) out.spec_constants.push_back(std::move(spec));
    }
    std::stable_sort(out.spec_constants.begin(), out.spec_constants.end(),
                     [](const auto& a, const auto& b) { return a.id < b.id; });
  }

  // SPIRV-Tools names enumerants only in text form: the capabilities alone are a module that it can print.
  void capabilities() {
    std::vector<std::uint32_t> words{0x07230203, 0x00010600, 0, 1, 0};
    words.insert(words.end(), capability_words_.begin(), capability_words_.end());
    std::string listing;
    spvtools::SpirvTools tools(SPV_ENV_UNIVERSAL_1_6);
    if (!tools.Disassemble(words, &listing, SPV_BINARY_TO_TEXT_OPTION_NO_HEADER)) return;
    std::set<std::string> seen;
    for (std::size_t at = 0; at < listing.size();) {
      const std::size_t end = std::min(listing.find('\n', at), listing.size());
      const std::string line = listing.substr(at, end - at);
      if (const auto name = line.rfind(' '); name != std::string::npos && seen.insert(line).second)
        out.capabilities.push_back(line.substr(name + 1));
      at = end + 1;
    }
  }

  bool in_function_ = false, local_size_by_id_ = false;
  std::uint32_t entry_ = 0;
  std::array<std::uint32_t, 3> local_size_{};
  std::vector<std::uint32_t> capability_words_;
  std::unordered_map<std::uint32_t, std::string> names_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::string> member_names_;
  std::map<std::uint32_t, Marks> marks_;
  std::unordered_map<std::uint32_t, Type> types_;
  std::unordered_map<std::uint32_t, std::uint32_t> structs_;  // member counts
  std::vector<Variable> variables_;
  Constants constants_;
  DebugSource debug_;
};

}  // namespace

Result<Reflection> reflect(std::span<const std::uint32_t> words) {
  spv_context context = spvContextCreate(SPV_ENV_UNIVERSAL_1_6);
  spv_diagnostic diagnostic = nullptr;
  Walk walk;
  const spv_result_t result = spvBinaryParse(
      context, &walk, words.data(), words.size(),
      [](void* user, spv_endianness_t, std::uint32_t, std::uint32_t version, std::uint32_t, std::uint32_t,
         std::uint32_t) { return static_cast<Walk*>(user)->header(version); },
      [](void* user, const spv_parsed_instruction_t* in) {
        return static_cast<Walk*>(user)->instruction(*in);
      },
      &diagnostic);
  std::string why =
      diagnostic != nullptr && diagnostic->error != nullptr ? diagnostic->error : "does not decode";
  spvDiagnosticDestroy(diagnostic);
  spvContextDestroy(context);
  if (result != SPV_SUCCESS) {
    if (why.find("nvalid opcode") != std::string::npos)
      return fail(ErrorCode::unsupported,
                  fmt::format("SPIR-V: {}; {} does not know it", why, spvSoftwareVersionString()),
                  "a newer SPIRV-Tools reads newer instructions");
    return fail(ErrorCode::invalid_data, "SPIR-V: " + why);
  }
  walk.finish();
  return std::move(walk.out);
}

}  // namespace klab::compile
