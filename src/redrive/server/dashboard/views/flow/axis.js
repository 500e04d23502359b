// The time axis of a waterfall: what happened is linear; what is still to come has a scale of its own beside it.

const PAST_SHARE = 68;
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800];

/**
 * from, now, until: epoch milliseconds. `until` after `now` gives the future a part of the width, in which distances
 * shrink, so that both the next attempt in seconds and the last one in a day can be seen.
 */
export function makeAxis({ from, now, until }) {
  const past = Math.max(now - from, 1);
  const future = until > now + 1 ? until - now : 0;
  const share = future ? PAST_SHARE : 100;
  const unit = Math.max(1000, future / 500);
  const place = (at) => {
    if (at <= now || !future) return Math.min(1, Math.max(0, (at - from) / past)) * share;
    const ahead = Math.min(at, until) - now;
    return share + (Math.log1p(ahead / unit) / Math.log1p(future / unit)) * (100 - share);
  };
  return { from, now, until, share, place, ticks: ticksOf(from, now, past) };
}

function ticksOf(from, now, past) {
  const step = (STEPS.find((one) => past / 1000 / one <= 5) ?? Math.ceil(past / 5 / 86_400_000) * 86_400) * 1000;
  const ticks = [];
  const zone = new Date(from).getTimezoneOffset() * 60_000;
  for (let at = Math.ceil((from - zone) / step) * step + zone; at <= now && ticks.length < 12; at += step) ticks.push(at);
  return past < 1000 ? [] : ticks;
}
