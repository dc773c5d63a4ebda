#include "client/console/json_msgpack.h"

#include <bit>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "mobula/detail/wire.h"

namespace mobula::internal::runtime::console {
namespace {

// Stops at excessive nesting, before the library's reader exhausts the stack.
class DepthCheck final : public nlohmann::json_sax<Json> {
 public:
  DepthCheck(bool with_binary, const NeutralParts& parts)
      : with_binary_(with_binary), parts_(parts) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t& bytes) override {
    return bytes.has_subtype() ? is_part_of(Json(bytes), parts_) : with_binary_;
  }
  bool start_object(std::size_t) override { return ++depth_ <= detail::max_depth; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return --depth_ >= 0; }
  bool start_array(std::size_t) override { return ++depth_ <= detail::max_depth; }
  bool end_array() override { return --depth_ >= 0; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  bool with_binary_;
  const NeutralParts& parts_;
  int depth_ = 0;
};

// True if the value has no parts, so that it needs no check of depth, keys, or extensions.
bool is_single(std::span<const std::byte> bytes) {
  if (bytes.empty()) return false;
  const auto mark = std::to_integer<unsigned>(bytes.front());
  const auto between = [mark](unsigned first, unsigned last) {
    return first <= mark && mark <= last;
  };
  return !between(0x80, 0x9f) && !between(0xc7, 0xc9) && !between(0xd4, 0xd8) &&
         !between(0xdc, 0xdf);
}

// The number of `width` bytes after the first one, the first byte first.
std::uint64_t number_at(std::span<const std::byte> bytes, std::size_t width) {
  std::uint64_t number = 0;
  for (const std::byte each : bytes.subspan(1, width))
    number = number << 8 | std::to_integer<std::uint64_t>(each);
  return number;
}

// Nil, a boolean, or a number, without the reader of the library, which allocates. Nothing for
// other bytes.
std::optional<Json> scalar_of(std::span<const std::byte> bytes) {
  if (bytes.empty() || bytes.size() > 9) return std::nullopt;
  const auto mark = std::to_integer<unsigned>(bytes.front());
  if (bytes.size() == 1) {
    if (mark < 0x80) return Json(std::uint64_t{mark});
    if (mark >= 0xe0) return Json(std::int64_t{static_cast<std::int8_t>(mark)});
    if (mark == 0xc0) return Json(nullptr);
    if (mark == 0xc2 || mark == 0xc3) return Json(mark == 0xc3);
    return std::nullopt;
  }
  const bool is_unsigned = mark >= 0xcc && mark <= 0xcf;
  const bool is_signed = mark >= 0xd0 && mark <= 0xd3;
  if (!is_unsigned && !is_signed && mark != 0xcb) return std::nullopt;
  const std::size_t width = mark == 0xcb ? 8 : std::size_t{1} << (mark & 3);
  if (bytes.size() != 1 + width) return std::nullopt;
  const std::uint64_t number = number_at(bytes, width);
  if (is_unsigned) return Json(number);
  if (mark == 0xcb) return Json(std::bit_cast<double>(number));
  const auto unused = static_cast<int>(64 - width * 8);
  return Json(static_cast<std::int64_t>(number << unused) >> unused);
}

}  // namespace

bool has_json(std::span<const std::byte> bytes, bool with_binary, const NeutralParts& parts) {
  const auto* const first = reinterpret_cast<const std::uint8_t*>(bytes.data());
  DepthCheck check(with_binary, parts);
  return Json::sax_parse(first, first + bytes.size(), &check, Json::input_format_t::msgpack);
}

Result<Json> json_of_msgpack(std::span<const std::byte> bytes, const NeutralParts& parts) {
  if (auto scalar = scalar_of(bytes)) return *std::move(scalar);
  const auto* const first = reinterpret_cast<const std::uint8_t*>(bytes.data());
  if (is_single(bytes) || has_json(bytes, true, parts)) {
    Json json = Json::from_msgpack(first, first + bytes.size(), true, false);
    if (!json.is_discarded()) return json;
  }
  return failure(
      ErrorCode::corrupt,
      "the bytes are not a msgpack value with text keys, refs, tensors, and handles that it "
      "has, and at most 512 levels");
}

void JsonMsgpack::write(const Json& json) {
  if (json.is_null()) return put(0xc0, 0, 0);
  if (json.is_boolean()) return put(json.get<bool>() ? 0xc3 : 0xc2, 0, 0);
  if (json.is_number_float()) return put(0xcb, std::bit_cast<std::uint64_t>(json.get<double>()), 8);
  if (!json.is_number()) {
    far_ = Json::to_msgpack(json);
    return;
  }
  const bool is_negative = !json.is_number_unsigned() && json.get<std::int64_t>() < 0;
  if (is_negative) {
    const auto number = json.get<std::int64_t>();
    const auto pattern = static_cast<std::uint64_t>(number);
    if (number >= -32) return put(static_cast<unsigned>(pattern & 0xff), 0, 0);
    if (number >= std::numeric_limits<std::int8_t>::min()) return put(0xd0, pattern, 1);
    if (number >= std::numeric_limits<std::int16_t>::min()) return put(0xd1, pattern, 2);
    if (number >= std::numeric_limits<std::int32_t>::min()) return put(0xd2, pattern, 4);
    return put(0xd3, pattern, 8);
  }
  const auto number = json.get<std::uint64_t>();
  if (number < 0x80) return put(static_cast<unsigned>(number), 0, 0);
  if (number <= std::numeric_limits<std::uint8_t>::max()) return put(0xcc, number, 1);
  if (number <= std::numeric_limits<std::uint16_t>::max()) return put(0xcd, number, 2);
  if (number <= std::numeric_limits<std::uint32_t>::max()) return put(0xce, number, 4);
  put(0xcf, number, 8);
}

void JsonMsgpack::put(unsigned mark, std::uint64_t value, std::size_t width) {
  near_[0] = static_cast<std::byte>(mark);
  for (std::size_t i = 0; i < width; ++i)
    near_[1 + i] = static_cast<std::byte>(value >> (8 * (width - 1 - i)));
  near_size_ = 1 + width;
}

}  // namespace mobula::internal::runtime::console
