#include "plimsoll/memory/replay/device_addresses.h"

#include <gtest/gtest.h>

#include <map>

#include "plimsoll/base/bytes.h"

namespace plimsoll::replay {
namespace {

TEST(DeviceAddresses, AreThoseOfAnH200) {
  DeviceAddresses addresses;
  for (int hole = 0; hole < 13; ++hole) addresses.take(2 * kMiB);  // those that the context left
  // In MiB: what was asked for, 0 to free; and the address that the card gave, less that of the first region.
  constexpr std::pair<int64_t, int64_t> kCalls[] = {
      {2, 0},        {2, 2},        {2, 4},        {2, 6},         {2, 8},        {2, 10},      {2, 12},
      {2, 14},       {2, 16},       {2, 18},       {2, 20},        {2, 22},       {2, 24},      {2, 26},
      {2, 28},       {2, 30},       {2, -32},      {2, -30},       {2, -28},      {2, -26},     {2, -24},
      {2, -22},      {2, -20},      {2, -18},      {2, -16},       {2, -14},      {2, -12},     {20, -64},
      {20, -96},     {20, -128},    {20, -160},    {20, -192},     {20, -224},    {20, -256},   {20, -288},
      {20, -320},    {20, -352},    {20, -384},    {20, -416},     {148, -576},   {2, -428},    {20, -608},
      {32, -640},    {34, -704},    {64, -768},    {100, -896},    {126, -1024},  {128, -1152}, {130, -1312},
      {200, -1536},  {256, -1792},  {258, -2080},  {300, -2400},   {500, -2912},  {512, -3424}, {514, -3968},
      {1000, -4992}, {1024, -6016}, {2048, -8064}, {3000, -11072}, {2, -8072},    {20, -3992},  {64, -11136},
      {10, -3454},   {12, -3444},   {26, -1822},   {30, -1182},    {0, -160},     {0, -192},    {0, -576},
      {0, -1536},    {0, 14},       {2, -8070},    {4, -8068},     {20, -2100},   {40, -576},   {100, -536},
      {148, -1472},  {150, -11296}, {20, -796},    {2, -11146},    {200, -11520}, {2, -11320},  {64, -11584}};
  std::map<int64_t, int64_t> live;
  int64_t first = -1;
  for (const auto& [mebibytes, offset] : kCalls) {
    if (mebibytes == 0) {
      addresses.give_back(first + offset * kMiB, live.at(offset));
      continue;
    }
    const int64_t address = addresses.take(mebibytes * kMiB);
    if (first < 0) first = address;
    EXPECT_EQ((address - first) / kMiB, offset) << mebibytes << " MiB";
    live[offset] = mebibytes * kMiB;
  }
}

TEST(DeviceAddresses, OfWhatIsFreeAgainAreGivenOutAgain) {
  DeviceAddresses addresses;
  const int64_t first = addresses.take(100 * kMiB);
  const int64_t second = addresses.take(100 * kMiB);
  EXPECT_EQ(second, first - 128 * kMiB);
  addresses.give_back(first, 100 * kMiB);
  addresses.give_back(second, 100 * kMiB);
  EXPECT_EQ(addresses.take(200 * kMiB), first - 96 * kMiB);  // both regions' gap, its upper end
}

TEST(DeviceAddresses, EndWhereTheRoomDoes) {
  DeviceAddresses addresses(0, 288 * kMiB);
  EXPECT_EQ(addresses.take(64 * kMiB), 96 * kMiB);
  EXPECT_EQ(addresses.take(128 * kMiB), -1);
  EXPECT_EQ(addresses.take(64 * kMiB), 32 * kMiB);
}

}  // namespace
}  // namespace plimsoll::replay
