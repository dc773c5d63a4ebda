#include "client/console/json_msgpack.h"

#include <cstdint>
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

}  // namespace

bool has_json(std::span<const std::byte> bytes, bool with_binary, const NeutralParts& parts) {
  const auto* const first = reinterpret_cast<const std::uint8_t*>(bytes.data());
  DepthCheck check(with_binary, parts);
  return Json::sax_parse(first, first + bytes.size(), &check, Json::input_format_t::msgpack);
}

Result<Json> json_of_msgpack(std::span<const std::byte> bytes, const NeutralParts& parts) {
  const auto* const first = reinterpret_cast<const std::uint8_t*>(bytes.data());
  if (is_single(bytes) || has_json(bytes, true, parts)) {
    Json json = Json::from_msgpack(first, first + bytes.size(), true, false);
    if (!json.is_discarded()) return json;
  }
  return failure(
      ErrorCode::corrupt,
      "the bytes are not a msgpack value with text keys, refs and tensors that it has, and at "
      "most 512 levels");
}

}  // namespace mobula::internal::runtime::console
