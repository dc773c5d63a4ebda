// Values of the typed API as neutral values, and back: mobula::function.
#include <mobula/errors.h>
#include <mobula/function.h>
#include <mobula/neutral.h>

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "client/api/conversions.h"
#include "client/console/json_msgpack.h"
#include "client/console/json_values.h"
#include "client/console/stored_copy.h"
#include "client/console/type_text.h"

namespace mobula::internal::runtime::console {
namespace {

std::shared_ptr<const detail::StoredValue> typed_from(const detail::StoredValue& stored,
                                                      const detail::TypeDescription& type) {
  const auto fail = [&](const std::string& why) {
    return SerializationError("reading a neutral value as " + type_text(type) + ": " + why);
  };
  const auto [json, parts] = neutral_json(stored);
  auto copy = typed_copy(json, type, JsonForm::neutral, parts);
  if (!copy) throw fail(copy.error().text);
  auto typed = std::move(*copy);
  typed.device = stored.device;
  return std::make_shared<const detail::StoredValue>(std::move(typed));
}

}  // namespace
}  // namespace mobula::internal::runtime::console

namespace mobula::detail {

namespace console = internal::runtime::console;

dynamic::Payload neutral_from(const Outgoing& value, const TypeDescription& type) {
  console::NeutralParts parts;
  value.set_apart(console::all_tensors);
  const auto stored = console::stored_copy(value);
  if (stored.bytes.empty()) value.rethrow_failure();
  const auto json = console::json_of(stored, type, console::JsonForm::neutral, &parts);
  if (!json) {
    throw SerializationError("an argument of type " + console::type_text(type) + ": " +
                             json.error().text);
  }
  const auto encoded = std::make_shared<const console::JsonMsgpack>(*json);
  return {dynamic::neutral_format,
          {.body = encoded->bytes(),
           .refs = std::move(parts.refs),
           .actors = std::move(parts.actors),
           .tensors = std::move(parts.tensors),
           .owner = encoded}};
}

AnyRef submit_function(const dynamic::Callable& function, const TaskOptions& options,
                       std::span<const dynamic::Argument> arguments, bool streaming) {
  if (function.name.empty() || function.program.empty()) {
    throw InvalidRequestError(
        "submit function '" + std::string(function.name) + "' of program '" +
        std::string(function.program) +
        "': one of them has no name; name the function, and the job that runs its program");
  }
  return dynamic::submit(function, options, arguments, {.streaming = streaming}).front();
}

bool read_neutral_as(const TypeDescription& type) {
  internal::client::add_conversion(type, &console::typed_from);
  return true;
}

}  // namespace mobula::detail
