// The common parts of calls and tensors are one shared object after decoding, too.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/model/task.h"
#include "base/random.h"
#include "protocol/codec/intern_cache.h"
#include "protocol/codec/messages.h"

namespace mobula::internal::test {
namespace {

CallRecord call_of(int form) {
  CallRecord call;
  call.task = TaskId::of(static_cast<std::uint64_t>(form) + 1);
  call.form.edit().name = "function " + std::to_string(form);
  call.form.edit().function.offset = static_cast<std::uint64_t>(form);
  call.form.edit().name_space = "forms";
  return call;
}

CallRecord there_and_back(const CallRecord& call) {
  auto back = decode<CallRecord>(encode(call));
  EXPECT_TRUE(back.ok());
  return back.ok() ? std::move(*back) : CallRecord{};
}

TEST(Forms, DecodesEqualFormsAsOneObject) {
  CallRecord first = call_of(1);
  CallRecord second = first;
  second.task = TaskId::of(99);
  const CallRecord a = there_and_back(first);
  const CallRecord b = there_and_back(second);
  EXPECT_EQ(a, first);
  EXPECT_EQ(b, second);
  EXPECT_TRUE(a.form.is_same(b.form));
}

TEST(Forms, DecodesEqualCopiesAsOneObject) {
  const CallRecord a = there_and_back(call_of(2));
  const CallRecord b = there_and_back(call_of(2));
  EXPECT_TRUE(a.form.is_same(b.form));
}

// A new form that is equal to a cached one is encoded once, however often it is sent.
TEST(Forms, FindsEncodingByEqualForm) {
  InternCache<CallForm> recent;
  const CopyOnWrite<CallForm> first = call_of(6).form;
  const CopyOnWrite<CallForm> second = call_of(6).form;
  const Bytes bytes = encode(*first);
  recent.keep(first, bytes);
  EXPECT_EQ(recent.find(second), nullptr);
  recent.keep(second, bytes);
  ASSERT_NE(recent.find(first), nullptr);
  ASSERT_NE(recent.find(second), nullptr);
  EXPECT_TRUE(recent.find(bytes)->value.is_same(first))
      << "a reader always gets the first of equal values";
}

TEST(Forms, MoreThanCached_StayCorrect) {
  std::vector<CallRecord> calls;
  for (int i = 0; i < 40; ++i) calls.push_back(call_of(i));
  for (int round = 0; round < 3; ++round) {
    for (const auto& call : calls) ASSERT_EQ(there_and_back(call), call) << call.form->name;
  }
  for (auto call = calls.rbegin(); call != calls.rend(); ++call)
    ASSERT_EQ(there_and_back(*call), *call);
}

// A changed form is encoded with its new content, even if its old content is cached.
TEST(Forms, ChangedForm_IsEncodedAsChanged) {
  CallRecord call = call_of(3);
  const CallRecord before = call;
  (void)encode(call);
  call.form.edit().num_returns = 7;
  EXPECT_EQ(there_and_back(call).form->num_returns, 7u);
  EXPECT_EQ(there_and_back(before).form->num_returns, 1u);
}

TEST(Forms, DamagedForm_FailsAndSpoilsNoOther) {
  const CallRecord call = call_of(4);
  const Bytes whole = encode(call);
  const Bytes form = encode(*call.form);
  const auto at = std::search(whole.begin(), whole.end(), form.begin(), form.end());
  ASSERT_NE(at, whole.end());
  const auto offset = static_cast<std::size_t>(at - whole.begin());
  Bytes no_form = whole;
  no_form[offset] = std::byte{0xc1};  // byte of no type
  EXPECT_FALSE(decode<CallRecord>(no_form).ok());
  Random random(5);
  for (int i = 0; i < 5000; ++i) {
    Bytes damaged = whole;
    for (std::uint64_t hits = 1 + random.below(3); hits-- > 0;) {
      damaged[offset + random.below(form.size())] = static_cast<std::byte>(random.below(256));
    }
    (void)decode<CallRecord>(damaged);
  }
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(decode<CallRecord>(std::span(whole).first(size)).ok()) << size;
  }
  EXPECT_EQ(there_and_back(call), call);
}

// Caching them would let a sender fill the memory of the receiver.
TEST(Forms, LongForm_IsNotInterned) {
  CallRecord call = call_of(5);
  call.form.edit().name = std::string(100'000, 'x');
  const CallRecord a = there_and_back(call);
  const CallRecord b = there_and_back(call);
  EXPECT_EQ(a, call);
  EXPECT_EQ(b, call);
  EXPECT_FALSE(a.form.is_same(b.form));
}

TensorRecord tensor_at(const std::string& address) {
  TensorRecord tensor;
  tensor.holder.edit().address = address;
  return tensor;
}

RefRecord ref_of(int number) {
  RefRecord ref{
      ObjectId::of(static_cast<std::uint64_t>(number) + 1), NodeId::of(2), ProcessId::of(3), {}};
  ref.tensor = tensor_at("10.0.0." + std::to_string(number % 3) + ":7000");
  ref.tensor.edit().block_offset = static_cast<std::uint64_t>(number) << 12;
  return ref;
}

TEST(TensorRecords, DecodesRecordsOfOneTensorAsOneObject) {
  const std::vector<RefRecord> refs{ref_of(1), ref_of(2), ref_of(1)};
  const auto back = decode<std::vector<RefRecord>>(encode(refs));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(*back, refs);
  EXPECT_TRUE(back->at(0).tensor.is_same(back->at(2).tensor));
  EXPECT_FALSE(back->at(0).tensor.is_same(back->at(1).tensor));
}

TEST(TensorRecords, MoreThanCached_StayCorrect) {
  std::vector<RefRecord> refs;
  for (int i = 0; i < 40; ++i) refs.push_back(ref_of(i % 9));
  for (int round = 0; round < 3; ++round) {
    const auto back = decode<std::vector<RefRecord>>(encode(refs));
    ASSERT_TRUE(back.ok());
    ASSERT_EQ(*back, refs);
    refs = *back;  // and encoded from the decoded objects
    refs[static_cast<std::size_t>(round)].tensor.edit().size_bytes = 77 + round;
  }
}

TEST(TensorRecords, DamagedRecord_SpoilsNoOther) {
  const RefRecord ref = ref_of(4);
  const Bytes whole = encode(ref);
  ASSERT_EQ(*decode<RefRecord>(whole), ref);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(decode<RefRecord>(std::span(whole).first(size)).ok()) << size;
  }
  Random random(7);
  for (int i = 0; i < 5000; ++i) {
    Bytes damaged = whole;
    damaged[random.below(damaged.size())] = static_cast<std::byte>(random.below(256));
    const auto back = decode<RefRecord>(damaged);
    if (back.ok() && damaged != whole) EXPECT_NE(*back, ref);
  }
  EXPECT_EQ(*decode<RefRecord>(whole), ref);
}

TEST(TensorHolders, DecodesAsOneObjectUnlessLong) {
  for (const std::size_t length : {20u, 100'000u}) {
    const TensorRecord tensor = tensor_at(std::string(length, 'a'));
    const auto a = decode<TensorRecord>(encode(tensor));
    const auto b = decode<TensorRecord>(encode(tensor));
    ASSERT_TRUE(a.ok() && b.ok());
    EXPECT_EQ(*a, tensor);
    EXPECT_EQ(*b, tensor);
    EXPECT_EQ(a->holder.is_same(b->holder), length == 20u) << length;
  }
}

}  // namespace
}  // namespace mobula::internal::test
