#include "client/console/json_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <stdexcept>

#include "base/containers/block_pool.h"
#include "base/text/json_writer.h"
#include "base/text/utf8.h"
#include "client/console/json_msgpack.h"
#include "client/console/type_text.h"

namespace mobula::internal::runtime::console {
namespace {

using detail::NumberKind;
using detail::Shape;
using detail::TypeDescription;

// A mismatch at a position of the JSON. Thrown and caught in this file alone.
struct Misfit : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Cache of the variant alternative chosen for each part of the JSON. Each part is tried once;
// otherwise nested variants would take time exponential in their depth.
class Choices {
 public:
  // no alternative fits, or one is being tried
  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

  Choices(JsonForm form, const NeutralParts* parts) : form_(form), parts_(parts) {}
  bool is_neutral() const { return form_ == JsonForm::neutral; }
  const NeutralParts* parts() const { return parts_; }

  std::optional<std::size_t> find(const Json& json, const TypeDescription& type) const {
    const auto at = chosen_.find({&json, &type});
    return at == chosen_.end() ? std::nullopt : std::optional(at->second);
  }
  void set(const Json& json, const TypeDescription& type, std::size_t chosen) {
    chosen_[{&json, &type}] = chosen;
  }

 private:
  JsonForm form_;
  const NeutralParts* parts_;
  std::map<std::pair<const Json*, const TypeDescription*>, std::size_t> chosen_;
};

// Position of the reader or writer, such as "at [3][\"a\"]".
class JsonPath {
 public:
  explicit JsonPath(Choices& choices) : choices_(choices) {}
  JsonPath(const JsonPath* above, std::string step)
      : choices_(above->choices_),
        above_(above),
        step_(std::move(step)),
        depth_(above->depth_ + 1) {
    if (depth_ > deepest)
      throw Misfit(fmt::format("the JSON nests deeper than {} levels", deepest));
  }
  Choices& choices() const { return choices_; }
  std::string text() const { return (above_ == nullptr ? "" : above_->text()) + step_; }
  [[noreturn]] void refuse(const Json& json, const std::string& wanted) const {
    const std::string at = text();
    throw Misfit(
        fmt::format("{}{} is not {}", at.empty() ? "" : "at " + at + ": ", shown(json), wanted));
  }

 private:
  static constexpr int deepest = 256;

  Choices& choices_;
  const JsonPath* above_ = nullptr;
  std::string step_;
  int depth_ = 0;
};

template <class Number>
void write_number(mobula::Writer& out, Number number) {
  out.write_bytes(&number, sizeof number);
}

double double_of(const Json& json, const JsonPath& path) {
  if (json.is_number()) return json.get<double>();
  if (path.choices().is_neutral()) path.refuse(json, "a number");
  if (json == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (json == "inf") return std::numeric_limits<double>::infinity();
  if (json == "-inf") return -std::numeric_limits<double>::infinity();
  path.refuse(json, "a number");
}

void write_floating(mobula::Writer& out, const Json& json, const TypeDescription& type,
                    const JsonPath& path) {
  const double number = double_of(json, path);
  if (type.size_bytes == sizeof(float)) {
    if (std::isfinite(number) && std::abs(number) > std::numeric_limits<float>::max()) {
      path.refuse(json, "a float32: it is too large");
    }
    write_number(out, static_cast<float>(number));
  } else if (type.size_bytes == sizeof(double)) {
    write_number(out, number);
  } else {
    unsigned char bytes[sizeof(long double)] = {};
    const auto wide = static_cast<long double>(number);
    std::memcpy(bytes, &wide, 10);
    out.write_bytes(bytes, sizeof bytes);
  }
}

// Accepts 5 and 5.0, but not 5.5.
bool is_whole(const Json& json) {
  if (json.is_number_integer()) return true;
  return json.is_number_float() && json.get<double>() == std::floor(json.get<double>()) &&
         std::abs(json.get<double>()) <= 0x1p53;
}

void write_integer(mobula::Writer& out, const Json& json, const TypeDescription& type,
                   const JsonPath& path) {
  const auto bits = static_cast<int>(type.size_bytes * 8);
  const bool has_sign = type.number == NumberKind::signed_integer;
  const std::int64_t least = has_sign ? std::numeric_limits<std::int64_t>::min() >> (64 - bits) : 0;
  const std::uint64_t most =
      (std::numeric_limits<std::uint64_t>::max() >> (64 - bits)) >> (has_sign ? 1 : 0);
  const auto refuse = [&] {
    path.refuse(json, fmt::format("a whole number from {} to {}", least, most));
  };
  if (!is_whole(json)) refuse();
  std::uint64_t pattern = 0;
  if (json.is_number_unsigned()) {
    pattern = json.get<std::uint64_t>();
    if (pattern > most) refuse();
  } else {
    const auto number = json.is_number_float() ? static_cast<std::int64_t>(json.get<double>())
                                               : json.get<std::int64_t>();
    if (number < least || (number > 0 && static_cast<std::uint64_t>(number) > most)) refuse();
    pattern = static_cast<std::uint64_t>(number);
  }
  out.write_bytes(&pattern, type.size_bytes);  // little-endian: the low bytes
}

// Inside a plain value the layout is that of memory, and no padding is added.
void write(mobula::Writer& out, const Json& json, const TypeDescription& type, const JsonPath& path,
           bool within_plain);

void write_elements(mobula::Writer& out, const Json& json, const TypeDescription& part,
                    const JsonPath& path, bool within_plain) {
  for (std::size_t i = 0; i < json.size(); ++i) {
    write(out, json[i], part, JsonPath(&path, fmt::format("[{}]", i)), within_plain);
  }
}

void require_array(const Json& json, std::size_t size, const JsonPath& path) {
  if (json.is_array() && json.size() == size) return;
  path.refuse(json, fmt::format("an array of {} elements", size));
}

// Members and parts in sequence.
void write_each(mobula::Writer& out, const Json& json, const Parts& parts, const JsonPath& path,
                bool within_plain) {
  if (parts.empty()) {
    if (!json.is_null() && json != Json::array()) path.refuse(json, "null or []");
    return write_number(out, std::uint8_t{0});
  }
  if (json.is_object()) {
    path.refuse(
        json,
        fmt::format(
            "an array of {} elements, in the order of the members ({}): a program does not know "
            "the names of members, but for types with MSGPACK_DEFINE_MAP",
            parts.size(), joined(parts)));
  }
  require_array(json, parts.size(), path);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    write(out, json[i], *parts[i], JsonPath(&path, fmt::format("[{}]", i)), within_plain);
  }
}

void align_block(mobula::Writer& out, const TypeDescription& element, std::size_t count) {
  const bool large = count * element.size_bytes >= detail::block_alignment;
  out.align_to(large ? std::max(detail::block_alignment, element.alignment) : element.alignment);
}

bool has_bytes(const TypeDescription& element) {
  const bool is_byte = element.shape == Shape::enumeration;  // std::byte
  const TypeDescription& number = is_byte ? *parts_of(element).front() : element;
  return number.number == NumberKind::unsigned_integer && number.size_bytes == 1;
}

void write_block(mobula::Writer& out, const Json& json, const TypeDescription& type,
                 const JsonPath& path) {
  const TypeDescription& element = *parts_of(type).front();
  if (type.is_text) {
    if (!json.is_string()) path.refuse(json, "text; text is written \"like this\"");
    const auto& text = json.get_ref<const std::string&>();
    out.write_count(text.size());
    align_block(out, element, text.size());
    return out.write_bytes(text.data(), text.size());
  }
  if (json.is_binary() && !kind_of_part(json) && has_bytes(element)) {
    const auto& bytes = json.get_binary();
    out.write_count(bytes.size());
    align_block(out, element, bytes.size());
    return out.write_bytes(bytes.data(), bytes.size());
  }
  if (!json.is_array()) path.refuse(json, "an array");
  out.write_count(json.size());
  align_block(out, element, json.size());
  write_elements(out, json, element, path, true);
}

void write_association(mobula::Writer& out, const Json& json, const TypeDescription& type,
                       const JsonPath& path) {
  const TypeDescription& element = *parts_of(type).front();
  const bool takes_object = type.is_map && parts_of(element).front()->is_text;
  if (takes_object && json.is_object()) {
    const Parts pair = parts_of(element);
    out.write_count(json.size());
    for (const auto& [key, value] : json.items()) {
      const JsonPath at(&path, "[\"" + key + "\"]");
      write(out, Json(key), *pair[0], at, false);
      write(out, value, *pair[1], at, false);
    }
    return;
  }
  if (!json.is_array())
    path.refuse(json, takes_object  ? "an object"
                      : type.is_map ? "an array of [key, value]"
                                    : "an array");
  out.write_count(json.size());
  write_elements(out, json, element, path, false);
}

// Writes the first alternative that fits. An alternative that contains the variant itself at the
// same JSON position does not fit, because the recursion would not end.
void write_variant(mobula::Writer& out, const Json& json, const TypeDescription& type,
                   const JsonPath& path) {
  const Parts parts = parts_of(type);
  Choices& choices = path.choices();
  auto chosen = choices.find(json, type);
  if (!chosen) {
    choices.set(json, type, Choices::none);
    for (std::size_t i = 0; i < parts.size() && !chosen; ++i) {
      try {
        mobula::Writer trial;
        write(trial, json, *parts[i], path, false);
        chosen = i;
      } catch (const Misfit&) {
      }
    }
    if (chosen) choices.set(json, type, *chosen);
  }
  if (!chosen || *chosen == Choices::none) {
    std::string wanted;
    for (const auto* part : parts) wanted += (wanted.empty() ? "" : ", ") + type_text(*part);
    path.refuse(json, "a value of any of " + wanted);
  }
  write_number(out, static_cast<std::uint32_t>(*chosen));
  write(out, json, *parts[*chosen], path, false);
}

void write_time(mobula::Writer& out, const Json& json, const TypeDescription& type,
                const JsonPath& path) {
  const TypeDescription& ticks = *parts_of(type).front();
  const double count = double_of(json, path) / type.tick_s;
  if (ticks.number == NumberKind::floating) return write(out, Json(count), ticks, path, false);
  if (!(std::abs(count) < 0x1p62)) path.refuse(json, "a time that fits");
  write(out, Json(std::llround(count)), ticks, path, false);
}

void write_array(mobula::Writer& out, const Json& json, const TypeDescription& type,
                 const JsonPath& path, bool within_plain) {
  require_array(json, type.count, path);
  const TypeDescription& element = *parts_of(type).front();
  if (!within_plain && type.is_plain && type.size_bytes >= detail::block_alignment)
    out.align_to(detail::block_alignment);
  if (type.count == 0) return write_number(out, std::uint8_t{0});
  write_elements(out, json, element, path, within_plain || type.is_plain);
}

void write_own(mobula::Writer& out, const Json& json, const TypeDescription& type,
               const JsonPath& path) {
  const NeutralParts* const parts = path.choices().parts();
  const auto kind = part_kind_of(type);
  if (parts == nullptr || !kind) throw Misfit(why_no_json(type, parts != nullptr));
  const auto index = index_of_part(*kind, json);
  if (*kind == PartKind::tensor) {
    if (!index) path.refuse(json, text_of(*kind));
    return out.write(parts->tensors.at(*index));
  }
  if (!index && !json.is_null()) path.refuse(json, text_of(*kind));
  write_number(out, static_cast<std::uint8_t>(index ? 1 : 0));
  if (index) out.write_ref(counted_part(*kind, *index, *parts));
}

// Types with MSGPACK_DEFINE are stored as msgpack, which maps to JSON: _MAP types are objects of
// their named members, others arrays. Whether the content matches the type is checked by the
// reader.
void write_msgpack(mobula::Writer& out, const Json& json) {
  const std::vector<std::uint8_t> bytes = Json::to_msgpack(json);
  out.write_count(bytes.size());
  out.align_to(bytes.size() >= detail::block_alignment ? detail::block_alignment : 1);
  out.write_bytes(bytes.data(), bytes.size());
}

void write(mobula::Writer& out, const Json& json, const TypeDescription& type, const JsonPath& path,
           bool within_plain) {
  out.enter();
  switch (type.shape) {
    case Shape::boolean:
      if (!json.is_boolean()) path.refuse(json, "true or false");
      write_number(out, static_cast<std::uint8_t>(json.get<bool>() ? 1 : 0));
      break;
    case Shape::number:
      if (type.number == NumberKind::floating)
        write_floating(out, json, type, path);
      else
        write_integer(out, json, type, path);
      break;
    case Shape::enumeration: write(out, json, *parts_of(type).front(), path, within_plain); break;
    case Shape::complex_number: {
      const Parts part = parts_of(type);
      write_each(out, json, {part.front(), part.front()}, path, within_plain);
      break;
    }
    case Shape::optional:
    case Shape::unique_pointer:
      write_number(out, static_cast<std::uint8_t>(json.is_null() ? 0 : 1));
      if (!json.is_null()) write(out, json, *parts_of(type).front(), path, false);
      break;
    case Shape::variant: write_variant(out, json, type, path); break;
    case Shape::tuple: write_each(out, json, parts_of(type), path, false); break;
    case Shape::array: write_array(out, json, type, path, within_plain); break;
    case Shape::duration: write_time(out, json, type, path); break;
    case Shape::time_point: write(out, json, *parts_of(type).front(), path, false); break;
    case Shape::block: write_block(out, json, type, path); break;
    case Shape::sequence:
      if (!json.is_array()) path.refuse(json, "an array");
      out.write_count(json.size());
      write_elements(out, json, *parts_of(type).front(), path, false);
      break;
    case Shape::association: write_association(out, json, type, path); break;
    case Shape::plain_struct: write_each(out, json, parts_of(type), path, true); break;
    case Shape::members: write_each(out, json, parts_of(type), path, false); break;
    case Shape::custom:
      if (!type.is_msgpack) throw Misfit(why_no_json(type));
      write_msgpack(out, json);
      break;
    case Shape::own: write_own(out, json, type, path); break;
    case Shape::none: throw Misfit(why_no_json(type));
  }
  out.leave();
}

template <class Number>
Number read_number(mobula::Reader& in) {
  Number number{};
  in.read_bytes(&number, sizeof number);
  return number;
}

// The mode of a reader: inside a plain value no padding exists.
struct ReadMode {
  bool plain = false;
  bool neutral = false;
  NeutralParts* parts = nullptr;
  ReadMode within(bool is_plain) const { return {is_plain, neutral, parts}; }
};

Json floating_json(double number, ReadMode mode) {
  if (mode.neutral) return number;
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  return number;
}

Json read_floating(mobula::Reader& in, const TypeDescription& type, ReadMode mode) {
  // A float printed as a double would show extra digits, so the shortest text of the float is used.
  if (type.size_bytes == sizeof(float)) {
    const auto number = read_number<float>(in);
    const bool is_short = std::isfinite(number) && !mode.neutral;
    return is_short ? Json::parse(fmt::format("{}", number)) : floating_json(number, mode);
  }
  if (type.size_bytes == sizeof(double)) return floating_json(read_number<double>(in), mode);
  return floating_json(static_cast<double>(read_number<long double>(in)), mode);
}

Json read_integer(mobula::Reader& in, const TypeDescription& type) {
  std::uint64_t pattern = 0;
  in.read_bytes(&pattern, type.size_bytes);
  if (type.number == NumberKind::unsigned_integer) return pattern;
  const auto unused = static_cast<int>(64 - type.size_bytes * 8);
  return static_cast<std::int64_t>(pattern << unused) >> unused;
}

Json read(mobula::Reader& in, const TypeDescription& type, ReadMode mode);

Json read_each(mobula::Reader& in, const Parts& parts, ReadMode mode) {
  if (parts.empty()) {
    in.take(1);
    return nullptr;
  }
  Json json = Json::array();
  for (const auto* part : parts) {
    try {
      json.push_back(read(in, *part, mode));
    } catch (const Misfit& why) {
      throw Misfit(fmt::format("member {}: {}", json.size() + 1, why.what()));
    }
  }
  return json;
}

Json read_elements(mobula::Reader& in, const TypeDescription& element, std::size_t count,
                   ReadMode mode) {
  Json json = Json::array();
  for (std::size_t i = 0; i < count; ++i) json.push_back(read(in, element, mode));
  return json;
}

Json read_block(mobula::Reader& in, const TypeDescription& type, ReadMode mode) {
  const TypeDescription& element = *parts_of(type).front();
  const std::size_t count = in.read_count(element.size_bytes);
  const bool large = count * element.size_bytes >= detail::block_alignment;
  in.align_to(large ? std::max(detail::block_alignment, element.alignment) : element.alignment);
  if (mode.neutral && has_bytes(element)) {
    const auto bytes = in.take(count);
    const auto* const first = reinterpret_cast<const std::uint8_t*>(bytes.data());
    return Json::binary({first, first + bytes.size()});
  }
  if (!type.is_text) return read_elements(in, element, count, mode.within(true));
  const auto bytes = in.take(count);
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (mode.neutral && valid_utf8(text) != text)
    throw Misfit("its text is not UTF-8; std::vector<std::byte> has any bytes");
  return text;
}

Json read_association(mobula::Reader& in, const TypeDescription& type, ReadMode mode) {
  const TypeDescription& element = *parts_of(type).front();
  Json elements =
      read_elements(in, element, in.read_count(element.smallest_bytes), mode.within(false));
  if (!type.is_map || !parts_of(element).front()->is_text) return elements;
  Json object = Json::object();
  for (auto& pair : elements) object[pair[0].get<std::string>()] = std::move(pair[1]);
  return object;
}

Json read_array(mobula::Reader& in, const TypeDescription& type, ReadMode mode) {
  if (!mode.plain && type.is_plain && type.size_bytes >= detail::block_alignment)
    in.align_to(detail::block_alignment);
  if (type.count != 0)
    return read_elements(in, *parts_of(type).front(), type.count,
                         mode.within(mode.plain || type.is_plain));
  in.take(1);
  return Json::array();
}

bool read_flag(mobula::Reader& in) {
  const auto byte = read_number<std::uint8_t>(in);
  if (byte > 1) throw Misfit("a bool is neither 0 nor 1");
  return byte == 1;
}

Json read_own(mobula::Reader& in, const TypeDescription& type, ReadMode mode) {
  const auto kind = part_kind_of(type);
  if (mode.parts == nullptr || !kind) throw Misfit(why_no_json(type, mode.parts != nullptr));
  if (*kind == PartKind::tensor) {
    auto& tensors = mode.parts->tensors;
    tensors.push_back(in.read<Tensor>());
    return json_of_part(*kind, tensors.size() - 1);
  }
  if (!read_flag(in)) return nullptr;
  const auto counted = *kind == PartKind::actor ? detail::RefKind::actor : detail::RefKind::object;
  return json_of_part(*kind, add_counted({counted, in.read_ref(counted)}, *mode.parts));
}

Json read_msgpack(mobula::Reader& in, ReadMode mode) {
  const std::size_t count = in.read_count(1);
  in.align_to(count >= detail::block_alignment ? detail::block_alignment : 1);
  const auto bytes = in.take(count);
  const auto* begin = reinterpret_cast<const std::uint8_t*>(bytes.data());
  if (!has_json(bytes, mode.neutral)) {
    throw Misfit(
        "its msgpack has no JSON form: it has binary parts, keys that are not text, or nests "
        "too deep");
  }
  return Json::from_msgpack(begin, begin + bytes.size());
}

Json read(mobula::Reader& in, const TypeDescription& type, ReadMode mode) {
  in.enter();
  const auto leave = [&in](Json json) {
    in.leave();
    return json;
  };
  switch (type.shape) {
    case Shape::boolean: return leave(read_flag(in));
    case Shape::number:
      return leave(type.number == NumberKind::floating ? read_floating(in, type, mode)
                                                       : read_integer(in, type));
    case Shape::enumeration: return leave(read(in, *parts_of(type).front(), mode));
    case Shape::complex_number: {
      const Parts part = parts_of(type);
      return leave(read_each(in, {part.front(), part.front()}, mode));
    }
    case Shape::optional:
    case Shape::unique_pointer:
      return leave(read_flag(in) ? read(in, *parts_of(type).front(), mode.within(false))
                                 : Json(nullptr));
    case Shape::variant: {
      const Parts parts = parts_of(type);
      const auto index = read_number<std::uint32_t>(in);
      if (index >= parts.size()) throw Misfit("a variant has no such alternative");
      return leave(read(in, *parts[index], mode.within(false)));
    }
    case Shape::tuple: return leave(read_each(in, parts_of(type), mode.within(false)));
    case Shape::array: return leave(read_array(in, type, mode));
    case Shape::duration: {
      const Json ticks = read(in, *parts_of(type).front(), mode.within(false));
      return leave(floating_json(ticks.is_number() ? ticks.get<double>() * type.tick_s : 0, mode));
    }
    case Shape::time_point: return leave(read(in, *parts_of(type).front(), mode.within(false)));
    case Shape::block: return leave(read_block(in, type, mode));
    case Shape::sequence: {
      const TypeDescription& element = *parts_of(type).front();
      return leave(
          read_elements(in, element, in.read_count(element.smallest_bytes), mode.within(false)));
    }
    case Shape::association: return leave(read_association(in, type, mode));
    case Shape::plain_struct: return leave(read_each(in, parts_of(type), mode.within(true)));
    case Shape::members: return leave(read_each(in, parts_of(type), mode.within(false)));
    case Shape::custom:
      if (type.is_msgpack) return leave(read_msgpack(in, mode));
      break;
    case Shape::own: return leave(read_own(in, type, mode));
    case Shape::none: break;
  }
  throw Misfit(why_no_json(type));
}

class JsonValue final : public detail::Outgoing {
 public:
  JsonValue(const Json& json, const TypeDescription& type, JsonForm form, const NeutralParts* parts)
      : Outgoing(type.fingerprint), json_(json), type_(type), choices_(form, parts) {
    measure();
  }

 private:
  void fill(mobula::Writer& out) const override {
    console::write(out, json_, type_, JsonPath(choices_), false);
  }
  const Json& json_;
  const TypeDescription& type_;
  mutable Choices choices_;  // filled during measurement; used by one thread at a time
};

}  // namespace

Result<std::shared_ptr<const detail::Outgoing>> value_of(const Json& json,
                                                         const TypeDescription& type, JsonForm form,
                                                         const NeutralParts* parts) {
  if (auto why = why_no_json(type, parts != nullptr); !why.empty())
    return failure(ErrorCode::invalid_argument, std::move(why));
  try {
    return std::shared_ptr<const detail::Outgoing>(make_pooled<JsonValue>(json, type, form, parts));
  } catch (const std::exception& misfit) {
    return failure(ErrorCode::invalid_argument, misfit.what());
  }
}

Result<Json> json_of(const detail::StoredValue& stored, const TypeDescription& type, JsonForm form,
                     NeutralParts* parts) {
  if (auto why = why_no_json(type, parts != nullptr); !why.empty())
    return failure(ErrorCode::invalid_argument, std::move(why));
  try {
    mobula::Reader in = detail::open_value(stored, type.fingerprint, type.name);
    Json json = read(in, type, {.neutral = form == JsonForm::neutral, .parts = parts});
    detail::require_end(in);
    return json;
  } catch (const std::exception& bad) {
    return failure(ErrorCode::corrupt, bad.what());
  }
}

}  // namespace mobula::internal::runtime::console
