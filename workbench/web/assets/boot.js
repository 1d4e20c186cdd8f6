/* Before the first paint: theme and language, so that nothing flashes. Loaded in <head>, not a module. */
(() => {
  const root = document.documentElement;
  const asked = new URLSearchParams(location.search);
  const read = (name) => {
    try { return localStorage.getItem(name); } catch { return null; }  // storage may be switched off
  };
  const dark = matchMedia('(prefers-color-scheme: dark)').matches;
  const theme = asked.get('theme') || read('cutaway-theme') || (dark ? 'dark' : 'light');
  root.dataset.theme = theme === 'dark' ? 'dark' : 'light';
  root.setAttribute('data-mantine-color-scheme', root.dataset.theme);
  const cookie = /(?:^|; )cutaway_lang=(en|zh)/.exec(document.cookie);
  let lang = cookie ? cookie[1] : (navigator.language || 'en').startsWith('zh') ? 'zh' : 'en';
  if (asked.get('lang') === 'en' || asked.get('lang') === 'zh') lang = asked.get('lang');
  // The server lays pages out in this language; it learns of it by the cookie.
  document.cookie = `cutaway_lang=${lang}; path=/; max-age=31536000; samesite=strict`;
  document.cookie = `cutaway_theme=${root.dataset.theme}; path=/; max-age=31536000; samesite=strict`;  // charts have colours, too
  root.lang = lang === 'zh' ? 'zh-Hans' : 'en';
})();
