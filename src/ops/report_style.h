// SPDX-License-Identifier: Apache-2.0
// The style of a report's page. A is blue and round, B is orange and square: told apart without colour too.
#pragma once
#include <string_view>

namespace klab::ops {

inline constexpr std::string_view kReportStyle = R"css(
:root{--bg:#fff;--fg:#1a1f26;--dim:#56616d;--line:#d5dbe1;--soft:#f3f5f8;--band:#eceff3;--same:#dfe7ea;
--a:#0b5fa5;--b:#bf4a08;--mark:#3c4654;--good:#00664f;--bad:#a8320a;--warn:#805400}
@media (prefers-color-scheme:dark){:root{--bg:#12161b;--fg:#e4e9ee;--dim:#9aa7b4;--line:#323b45;--soft:#1a2027;--band:#1d242c;--same:#22343a;
--a:#64b1f0;--b:#f3965a;--mark:#c3ccd6;--good:#4fc7a4;--bad:#ff8f66;--warn:#e0b04a}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:924px;padding:24px 32px 48px;background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,"Segoe UI",Roboto,Helvetica,Arial,sans-serif}
h1{font-size:27px;line-height:1.25;margin:6px 0 4px;text-wrap:balance;overflow-wrap:anywhere}
h1.good{color:var(--good)}h1.bad{color:var(--bad)}h1.warn{color:var(--warn)}
.sign{display:inline-block;margin-right:.4em;font-size:.8em}
h2{font-size:18px;margin:38px 0 8px;padding-top:12px;border-top:1px solid var(--line)}
p{margin:8px 0;overflow-wrap:anywhere}.kicker,.note,footer,.dim,figcaption{color:var(--dim)}.kicker{margin:0;font-size:13px}
.lead{font-size:17px}.note,figcaption,footer{font-size:13px}footer{margin-top:32px}
code,pre{font:13px/1.45 ui-monospace,"SF Mono",Menlo,Consolas,"DejaVu Sans Mono",monospace;overflow-wrap:anywhere}
pre{background:var(--soft);border:1px solid var(--line);border-radius:6px;padding:10px 12px;overflow-x:auto;white-space:pre-wrap}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(190px,1fr));gap:10px;margin:18px 0 0}
.card{background:var(--soft);border:1px solid var(--line);border-radius:8px;padding:10px 12px}
.card dt{font-size:13px;color:var(--dim)}.card dd{margin:0;font-size:20px;font-weight:600;font-variant-numeric:tabular-nums}
.card dd.more{font-size:13px;font-weight:400;color:var(--dim)}
figure{margin:10px 0 18px}figcaption{margin-top:4px}svg{display:block;max-width:100%;height:auto}.small{display:none}
table{border-collapse:collapse;font-size:14px;margin:8px 0;font-variant-numeric:tabular-nums}
th,td{text-align:left;vertical-align:top;padding:4px 14px 4px 0;border-bottom:1px solid var(--line)}.facts td{overflow-wrap:anywhere}
th{font-weight:500;color:var(--dim)}td.n{text-align:right;overflow-wrap:normal;white-space:nowrap}.facts{width:100%}.facts th[scope=row]{width:170px}.scroll{overflow-x:auto}
details td{font-size:13px}tr.gone td{color:var(--dim)}summary{cursor:pointer;font-weight:600;padding:10px 0}
.key{display:inline-block;width:10px;height:10px;background:var(--mark)}.key.round{border-radius:50%}.key.a{background:var(--a)}.key.b{background:var(--b)}
.key.same{width:18px;background:var(--same);border:1px dashed var(--dim)}.key.cross{background:none;width:auto;height:auto;color:var(--bad);font-weight:700}
text{fill:var(--fg);font:12px system-ui,"Segoe UI",Roboto,Helvetica,Arial,sans-serif}text.tick,text.name{fill:var(--dim)}text.letter{font-weight:700;font-size:15px}
text.a{fill:var(--a)}text.b{fill:var(--b)}
.axis{stroke:var(--dim);stroke-width:1}.grid{stroke:var(--line);stroke-width:1}.one{stroke:var(--fg);stroke-width:1.3}
.edge{stroke:var(--dim);stroke-width:1;stroke-dasharray:4 3}.same{fill:var(--same);opacity:.75}.band{fill:var(--band)}
.reach{stroke:var(--fg);stroke-width:2.5}.reach.second,.dot.second{stroke:var(--dim)}.dot{fill:var(--fg);stroke:var(--bg);stroke-width:1.5}.dot.second{fill:var(--dim)}
.point{fill:var(--mark);opacity:.62}.gone{stroke:var(--bad);stroke-width:1.4;fill:none}.mean{stroke:var(--fg);stroke-width:1.2;stroke-dasharray:6 4}
.step{stroke:var(--fg);stroke-width:2.6}.trace{fill:none;stroke:var(--mark);stroke-width:1;opacity:.6}
.bar.a,.mark.a{fill:var(--a)}.bar.b,.mark.b{fill:var(--b)}.bar{opacity:.82}.mark{opacity:.7}.mark.faint{opacity:.25}
.median{stroke:var(--fg);stroke-width:1.5;stroke-dasharray:3 2}
@media (max-width:760px){body{padding:16px 16px 40px}h1{font-size:22px}.wide{display:none}.small{display:block}.facts th[scope=row]{width:110px}.cards{grid-template-columns:1fr 1fr}
.card dd{font-size:17px}}
@media print{body{max-width:none;padding:0}section{break-inside:avoid}}
)css";

}  // namespace klab::ops
