#include <mobula/dtype.h>

#include <array>

namespace mobula {
namespace {

struct Row {
  std::string_view name;
  std::size_t item;
};

// In the order of the enumeration.
constexpr std::array<Row, 18> rows = {{{"boolean", 1},
                                       {"uint8", 1},
                                       {"uint16", 2},
                                       {"uint32", 4},
                                       {"uint64", 8},
                                       {"int8", 1},
                                       {"int16", 2},
                                       {"int32", 4},
                                       {"int64", 8},
                                       {"float16", 2},
                                       {"bfloat16", 2},
                                       {"float32", 4},
                                       {"float64", 8},
                                       {"complex64", 8},
                                       {"complex128", 16},
                                       {"float8_e4m3fn", 1},
                                       {"float8_e5m2", 1},
                                       {"float8_e8m0", 1}}};
static_assert(rows.size() == static_cast<std::size_t>(DType::float8_e8m0) + 1);

}  // namespace

std::string_view dtype_name(DType dtype) {
  const auto at = static_cast<std::size_t>(dtype);
  return at < rows.size() ? rows[at].name : "unknown";
}

std::size_t item_bytes(DType dtype) {
  const auto at = static_cast<std::size_t>(dtype);
  return at < rows.size() ? rows[at].item : 0;
}

}  // namespace mobula
