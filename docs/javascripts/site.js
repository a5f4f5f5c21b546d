// What the theme leaves out for keyboards and screen readers: tables that are wider than the screen can be scrolled, the
// search has a name, and buttons beside code blocks are told apart.
const improve = () => {
  document.querySelector(".md-search[role=dialog]")?.setAttribute("aria-label", "Search");
  document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])").forEach((wrap) => {
    wrap.tabIndex = 0;
  });
  document.querySelectorAll(".md-code__nav").forEach((nav, index) => {
    nav.setAttribute("aria-label", `Code block ${index + 1}`);
  });
};

new MutationObserver(improve).observe(document.documentElement, { childList: true, subtree: true });
improve();
