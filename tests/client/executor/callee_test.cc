// Calls of other programs: methods by name and types, and by JSON, with bad input.
#include "client/executor/callee.h"

#include <gmock/gmock.h>
#include <mobula/service.h>

#include "client/api/untyped/call_signature.h"
#include "client/executor/json_call.h"

namespace mobula::internal::executor {
namespace {

using detail::ErrorKind;
using testing::HasSubstr;

class Adder {
 public:
  int add(int a, int b) { return a + b; }
};
const Service<Adder, &Adder::add> adder_service;

const detail::Entry& entry() { return detail::MethodEntry<Adder, &Adder::add, false>::entry; }

// A call by another program, which knows the method under this offset.
CallForm foreign_call(std::uint64_t offset) {
  const MethodSignature signature = signature_of(entry());
  CallForm form;
  form.kind = CallKind::actor_call;
  form.function = {ProgramId::of(77), offset};
  form.method = signature.name;
  form.types = signature.types;
  return form;
}

detail::RawId raw_program() {
  const auto bits = ProgramId::of(77).bits();
  return {bits.high, bits.low};
}

TEST(Callee, AnotherProgram_FoundByNameAndRemembered) {
  const Callee callee = callee_of(foreign_call(1), entry().class_tag());
  EXPECT_EQ(callee.entry, &entry());
  EXPECT_EQ(detail::Registry::instance().find({raw_program(), 1}), &entry());
}

TEST(Callee, ManyForeignKeys_MemoryIsBounded) {
  constexpr std::uint64_t many = detail::Registry::most_added_keys + 10;
  for (std::uint64_t offset = 0; offset < many; ++offset)
    ASSERT_EQ(callee_of(foreign_call(offset), entry().class_tag()).entry, &entry());
  EXPECT_EQ(detail::Registry::instance().find({raw_program(), many - 1}), nullptr);
}

TEST(Callee, OtherTypes_ErrorNamesPart) {
  CallForm form = foreign_call(1'000'000);
  form.types.replace(form.types.find("parameter 2\tint32"), 17, "parameter 2\tint64");
  const Callee callee = callee_of(form, entry().class_tag());
  ASSERT_TRUE(callee.error);
  EXPECT_EQ(callee.error->kind, ErrorKind::invalid_request);
  EXPECT_THAT(callee.error->message, HasSubstr("parameter 2 is int64 in the caller's program"));
}

class JsonCall : public testing::Test {
 protected:
  std::optional<detail::ErrorRecord> error_of(std::span<const detail::StoredValue> arguments) {
    CallForm form;
    form.kind = CallKind::actor_call;
    form.method = "add";
    form.types = json_types;
    detail::Invocation call;
    call.self = &adder_;
    call.arguments = arguments;
    return run_json_call(form, entry().class_tag(), call).error;
  }
  Adder adder_;
};

TEST_F(JsonCall, NoArgument_IsRejected) {
  const auto error = error_of({});
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind, ErrorKind::invalid_request);
}

TEST_F(JsonCall, ArgumentIsNoString_IsRejected) {
  const detail::OutgoingValue<int> number(5);
  alignas(64) std::byte bytes[64];
  ASSERT_TRUE(number.write(std::span(bytes, number.size_bytes())));
  const detail::StoredValue stored{.bytes = std::span<const std::byte>(bytes, number.size_bytes())};
  const auto error = error_of({&stored, 1});
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind, ErrorKind::serialization);
}

}  // namespace
}  // namespace mobula::internal::executor
