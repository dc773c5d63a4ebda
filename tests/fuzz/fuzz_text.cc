// Text from users and their programs: amounts, addresses, label selectors, and requests as JSON.
// The first byte selects.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/model/labels/label_selector.h"
#include "base/quantity.h"
#include "head/core/view/requests/request_json.h"
#include "transport/net/address.h"

namespace mobula::internal {
namespace {

void try_text(std::uint8_t which, const std::string& text) {
  switch (which % 4) {
    case 0:
      if (const auto amount = Quantity::parse(text); amount.ok()) {
        const auto again = Quantity::parse(amount->to_string());
        if (!again.ok() || *again != *amount) std::abort();
      }
      break;
    case 1: static_cast<void>(Address::parse(text)); break;
    case 2: static_cast<void>(LabelMatch::parse("zone", text)); break;
    case 3: static_cast<void>(head::shape_from_json(text)); break;
  }
}

}  // namespace
}  // namespace mobula::internal

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  mobula::internal::try_text(data[0],
                             std::string(reinterpret_cast<const char*>(data + 1), size - 1));
  return 0;
}
