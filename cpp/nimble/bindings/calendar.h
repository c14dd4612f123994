// The proleptic Gregorian calendar. Years begin in March, so that the leap day
// is a year's last.
#pragma once

#include <cstdint>

namespace nimble {

struct Civil {
  int64_t year;
  int month, day;
};

inline constexpr int64_t kDaysTo1970 = 719468;  // from 0000-03-01
inline constexpr int64_t kDaysOfEra = 146097;   // 400 years

// The date so many days after 1970-01-01.
inline Civil civil_of(int64_t days) {
  const int64_t z = days + kDaysTo1970;
  const int64_t era = (z >= 0 ? z : z - kDaysOfEra + 1) / kDaysOfEra;
  const int64_t doe = z - era * kDaysOfEra;
  const int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
  const int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
  const int64_t mp = (5 * doy + 2) / 153;
  const auto day = static_cast<int>(doy - (153 * mp + 2) / 5 + 1);
  const auto month = static_cast<int>(mp < 10 ? mp + 3 : mp - 9);
  return {yoe + era * 400 + (month <= 2), month, day};
}

// Days from 1970-01-01 to a date of year 0 or later.
inline int64_t days_of(const Civil& date) {
  const int64_t year = date.year - (date.month <= 2);
  const int64_t era = (year >= 0 ? year : year - 399) / 400;
  const int64_t yoe = year - era * 400;
  const int64_t mp = date.month > 2 ? date.month - 3 : date.month + 9;
  const int64_t doy = (153 * mp + 2) / 5 + date.day - 1;
  return era * kDaysOfEra + yoe * 365 + yoe / 4 - yoe / 100 + doy - kDaysTo1970;
}

}  // namespace nimble
