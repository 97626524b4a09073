"""Forms of a word in which search looks for it besides the one that was written.

`normalize_text` takes away what no reader sees: case, width, marks without a width, digits of other scripts.
`fold_script` gives a word in the plainest letters: without accents and vowel marks, one letter for the
variants of Arabic and Persian, hiragana for katakana, simplified characters for traditional ones. Endings
and articles are the subject of `light_stems`. Raise `FOLDING_VERSION` with every change of what is indexed,
here or there: indexes that were made with another one are made anew.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

from autonomy_ctx._lazy import lazy_pattern

FOLDING_VERSION = 1

# Marks that join letters into a word, by script; Python counts them as no part of one.
WORD_MARKS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u0711\u0730-\u074a\u07a6-\u07b0\u0816-\u082d"
    "\u0900-\u0903\u093a-\u094f\u0951-\u0957\u0962\u0963\u0981-\u0983\u09bc-\u09d7\u09e2\u09e3\u0a01-\u0a03"
    "\u0a3c-\u0a51\u0a70\u0a71\u0a75\u0a81-\u0a83\u0abc-\u0acd\u0ae2\u0ae3\u0b01-\u0b03\u0b3c-\u0b57\u0b62\u0b63"
    "\u0b82\u0bbe-\u0bd7\u0c00-\u0c04\u0c3c-\u0c56\u0c62\u0c63\u0c81-\u0c83\u0cbc-\u0cd6\u0ce2\u0ce3\u0d00-\u0d03"
    "\u0d3b-\u0d57\u0d62\u0d63\u0d81-\u0d83\u0dca-\u0df3\u0f18\u0f19\u0f35\u0f37\u0f39\u0f3e\u0f3f\u0f71-\u0f84"
    "\u0f86\u0f87\u0f8d-\u0fbc"
)
# Thai, Lao, Burmese and Khmer: written without spaces between words.
SYLLABIC_SCRIPTS = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u0edc-\u0edf\u1000-\u103f\u1050-\u109f\u1780-\u17d3\u17dd\ua9e0-\ua9ef"
    "\ua9fa-\ua9fe\uaa60-\uaa7f"
)
# Tatweel, soft hyphen, joiners, marks of direction, variation selectors: a reader does not see them.
_INVISIBLE = (
    "\u00ad\u034f\u061c\u0640\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f"
    "\ufe00-\ufe0f\ufeff"
)
_SPECIAL_LETTERS = {
    "\u00df": "ss",
    "\u00f8": "o",
    "\u00e6": "ae",
    "\u0153": "oe",
    "\u0111": "d",
    "\u0142": "l",
    "\u0131": "i",
    "\u00f0": "d",
    "\u00fe": "th",
    "\u0127": "h",
    "\u0167": "t",
    "\u03c2": "\u03c3",
    "\u0491": "\u0433",
}
# What is written where a keyboard has no such letter.
_DIGRAPHS = {"\u00e4": "ae", "\u00f6": "oe", "\u00fc": "ue", "\u00e5": "aa", "\u00f8": "oe"}
_ARABIC_LETTERS = {
    **dict.fromkeys("\u0622\u0623\u0625\u0671", "\u0627"),
    **dict.fromkeys("\u0649\u06cc\u0626\u06d2", "\u064a"),
    **dict.fromkeys("\u06a9\u06aa", "\u0643"),
    **dict.fromkeys("\u0629\u06c0\u06c1\u06c2\u06d5\u06be", "\u0647"),
    "\u0624": "\u0648",
}
_HEBREW_FINALS = dict(zip("\u05da\u05dd\u05df\u05e3\u05e5", "\u05db\u05de\u05e0\u05e4\u05e6", strict=True))
_INVISIBLE_PATTERN = lazy_pattern(f"[{_INVISIBLE}]+")
_DIGIT_PATTERN = lazy_pattern(r"[^\D0-9]")
_DIGRAPH_PATTERN = lazy_pattern("([ao]|(?<![aeq])u)e|a(?=a)")
# Accents (but not the one that makes another letter of the Cyrillic i), points of Hebrew, vowel marks of
# Arabic, the dot below of Devanagari.
_MARK_PATTERN = lazy_pattern(
    "(?<!\u0438)[\u0300-\u036f]+"
    "|[\u0591-\u05bd\u05bf-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed\u093c]+"
)
# A nasal before another consonant is also written as a dot, or as a moon with a dot.
_NASAL_PATTERN = lazy_pattern("[\u0919\u091e\u0923\u0928\u092e]\u094d(?=[\u0915-\u0939])|\u0901")
# Vowels that stand before their consonant, and what stands after it; in Burmese and Khmer also a consonant
# below it.
_LEADING_VOWELS = "\u0e40-\u0e44\u0ec0-\u0ec4"
_FOLLOWERS = (
    "\u0e30-\u0e3a\u0e45-\u0e4e\u0eb0-\u0ebc\u0ec8-\u0ece\u102b-\u1038\u103a-\u103e\u1056-\u1059"
    "\u105e-\u1060\u1062-\u1064\u1067-\u106d\u1071-\u1074\u1082-\u108d\u17b4-\u17d1\u17d3\u17dd"
)
_SYLLABLE_PATTERN = lazy_pattern(
    f"[{_LEADING_VOWELS}]*+(?:[^{_LEADING_VOWELS}](?:[\u1039\u17d2].|[{_FOLLOWERS}])*+)?", re.DOTALL
)
# Traditional characters of Chinese and characters of Japanese, each before its simplified one.
_HAN_PAIRS = (
    "東东學学國国會会電电車车銀银機机體体館馆臺台灣湾醫医發发飛飞腦脑門门問问間间聞闻開开關关閉闭時时書书"
    "長长張张馬马嗎吗媽妈罵骂碼码鳥鸟魚鱼風风雲云氣气漢汉語语話话說说請请謝谢認认識识讀读寫写課课記记計计"
    "設设許许論论證证評评詞词試试詩诗該该詳详誤误調调談谈諒谅諾诺講讲譯译議议護护讓让變变貝贝負负財财責责"
    "貨货販贩貪贪貧贫購购貴贵買买賣卖費费貼贴賀贺資资賓宾賞赏賠赔賺赚贈赠贏赢質质賴赖軍军軌轨軟软較较載载"
    "輕轻輛辆輪轮輸输轉转辦办辭辞邊边達达過过運运還还這这進进遠远違违連连遲迟適适選选遺遗郵邮鄉乡醜丑釋释"
    "針针釣钓鈔钞鈴铃鉛铅鋼钢錄录錢钱錯错鍋锅鍵键鎖锁鎮镇鏡镜鐘钟鐵铁鑰钥陽阳陰阴陳陈陸陆隊队階阶際际隨随"
    "險险隱隐隻只雖虽雙双雞鸡離离難难靈灵靜静響响頁页頂顶項项順顺須须預预頓顿頭头題题額额顏颜願愿類类顧顾"
    "顯显飯饭飲饮餅饼養养餘余饅馒驗验驚惊駕驾駛驶騎骑騙骗驅驱髮发鬆松鬥斗鬧闹鮮鲜鴨鸭鵝鹅鷹鹰麗丽麥麦麵面"
    "黃黄點点黨党齊齐齒齿龍龙龜龟兩两並并亞亚來来個个們们倉仓價价億亿傳传傷伤傾倾僅仅僑侨儀仪優优儲储兒儿"
    "內内冊册凍冻減减劃划劇剧劉刘劍剑動动務务勝胜勞劳勢势勵励勸劝區区協协單单卻却廠厂歷历曆历壓压厲厉參参"
    "叢丛吳吴員员唄呗啟启喪丧喬乔嘆叹嘗尝噸吨嚇吓嚴严囑嘱圍围園园圓圆圖图團团執执堅坚報报場场塊块塗涂墊垫"
    "墳坟壞坏壯壮壽寿夠够夢梦夥伙奪夺奮奋奧奥婦妇娛娱嬰婴孫孙寧宁實实審审寬宽寶宝將将專专對对導导尋寻屆届"
    "層层屬属島岛歲岁崗岗嶺岭嶽岳幣币師师帶带幫帮幹干幾几庫库廁厕廢废廣广廳厅彈弹強强歸归當当彙汇後后徑径"
    "從从復复徵征徹彻恆恒恥耻悅悦惡恶惱恼愛爱態态慘惨慣惯慮虑慶庆憂忧憐怜憑凭憲宪憶忆懇恳應应懶懒懷怀懸悬"
    "戀恋戰战戲戏戶户捨舍掃扫掛挂採采揚扬換换揮挥損损搖摇搶抢撥拨撲扑擁拥擇择擊击擋挡擔担據据擠挤擬拟擴扩"
    "擺摆擾扰攔拦攜携攝摄敗败敘叙敵敌數数斷断於于舊旧昇升晉晋暈晕暫暂曉晓暢畅曬晒條条柵栅棄弃棟栋棗枣楊杨"
    "楓枫業业極极榮荣構构槍枪樁桩樂乐樓楼標标樣样樹树橋桥橫横檔档檢检檯台櫃柜欄栏權权歐欧歡欢殘残殺杀毀毁"
    "氈毡決决沒没沖冲況况洩泄涼凉淚泪淨净淺浅測测渾浑湯汤溝沟溫温滅灭滾滚滿满漁渔漲涨漸渐潑泼潔洁潛潜潤润"
    "澤泽濃浓濕湿濟济濤涛濱滨瀏浏灑洒灘滩災灾為为烏乌無无煉炼煙烟煩烦熱热燈灯燒烧營营燦灿爐炉爛烂爭争爺爷"
    "爾尔牆墙牽牵犧牺狀状猶犹獄狱獅狮獎奖獨独獲获獵猎獸兽獻献現现瑪玛環环璽玺瓊琼產产畝亩畢毕畫画異异瘋疯"
    "療疗癢痒癥症皺皱盜盗盞盏盡尽監监盤盘盧卢眾众睏困瞭了矚瞩矯矫硯砚碩硕確确礎础礙碍礦矿禍祸禮礼禪禅種种"
    "稱称穀谷積积穩稳窩窝窮穷竄窜競竞筆笔節节範范築筑篩筛簡简簽签籃篮籌筹籤签糧粮糾纠紀纪約约紅红紋纹納纳"
    "紐纽純纯紗纱紙纸級级紛纷紡纺細细紹绍終终組组結结絕绝絡络給给統统絲丝經经綠绿維维綱纲網网緊紧緒绪線线"
    "緣缘編编緩缓練练縣县縫缝縮缩總总績绩織织繞绕繩绳繪绘繼继續续纖纤罰罚羅罗義义習习聖圣聯联聰聪聲声職职"
    "聽听肅肃脅胁脈脉腎肾腫肿腳脚膚肤膠胶膽胆臉脸臨临舉举舖铺艙舱艦舰艱艰艷艳莊庄華华萬万葉叶著着蓋盖蔣蒋"
    "蔥葱蕭萧薦荐薩萨藍蓝藝艺藥药蘇苏蘋苹蘭兰處处虛虚號号虧亏蝦虾蟲虫蠟蜡蠶蚕術术衛卫衝冲裝装補补裏里裡里"
    "製制複复襯衬襲袭見见規规視视親亲覺觉覽览觀观觸触訂订訊讯討讨訓训訪访訴诉診诊註注詢询誇夸誌志誠诚誰谁"
    "誼谊諮咨諷讽謀谋謊谎謎谜謙谦謹谨譜谱譽誉豐丰豬猪貓猫貸贷貿贸賄贿賬账賽赛趕赶趙赵跡迹踐践踴踊躍跃軸轴"
    "輔辅輝辉輩辈輯辑轎轿轟轰農农遊游遙遥遞递邁迈鄧邓鄭郑鄰邻醬酱釀酿鈣钙鈕钮鉤钩銅铜銘铭銳锐銷销鋪铺鋒锋"
    "錶表鍛锻鍾钟鎊镑鎳镍鏈链鑄铸鑑鉴鑒鉴鑽钻閃闪閒闲閣阁閱阅闆板闊阔陝陕隸隶雜杂霧雾韓韩韻韵頑顽頒颁頗颇"
    "領领頸颈頻频顆颗顛颠飄飘飼饲飽饱飾饰餃饺餓饿駐驻駱骆騰腾騷骚驢驴鬍胡鬚须鮑鲍鯉鲤鯨鲸鱷鳄鳳凤鳴鸣鴉鸦"
    "鴻鸿鵬鹏鶴鹤鹽盐鹼碱黴霉鼴鼹龐庞龔龚備备創创則则剛刚別别刪删與与興兴償偿債债偉伟側侧傑杰係系佈布佔占"
    "亂乱稅税脫脱準准週周憤愤壇坛塵尘宮宫屢屡岡冈帥帅帳帐廚厨廟庙廈厦彎弯悶闷撐撑攤摊攪搅斬斩棲栖樸朴檸柠"
    "櫻樱欽钦氫氢淵渊湊凑滲渗潰溃澆浇濾滤煥焕燙烫瑣琐疊叠盪荡睜睁瞞瞒磚砖禱祷穎颖籠笼紮扎綁绑綜综綿绵縱纵"
    "繳缴罷罢聳耸腸肠臟脏莖茎蒼苍蓮莲薑姜蘆芦蠅蝇褲裤襪袜託托詐诈誕诞誘诱諸诸謠谣讚赞豎竖貢贡賊贼賢贤賦赋"
    "贊赞趨趋輿舆辯辩遜逊遷迁遼辽鄒邹釘钉鈍钝錦锦錫锡閘闸韋韦頃顷頌颂颱台飢饥餵喂饑饥駁驳駝驼驟骤髒脏魯鲁"
    "鯊鲨鷗鸥鹹咸麼么齡龄乾干僱雇儘尽兇凶勁劲勳勋勻匀匯汇厭厌呂吕啞哑喚唤嘔呕嘩哗噴喷墜坠壘垒壺壶夾夹妝妆"
    "嬌娇寵宠尷尴屍尸峽峡嶼屿巖岩廂厢弔吊慚惭慾欲懲惩懼惧拋抛捲卷揀拣搗捣撈捞撫抚撿捡擰拧擲掷斂敛曠旷桿杆"
    "槓杠樞枢歎叹殼壳洶汹淒凄渦涡滄沧滬沪漿浆濁浊濫滥濺溅瀉泻燭烛爍烁牀床犢犊狹狭瑩莹癡痴癮瘾癱瘫稜棱窪洼"
    "窺窥竅窍竊窃筍笋籬篱粵粤糞粪紳绅絆绊絨绒綢绸綻绽緝缉緞缎締缔緬缅緯纬縛缚繡绣繫系繭茧繽缤纏缠聾聋膩腻"
    "膿脓臘腊臥卧舘馆荊荆莢荚萊莱蔭荫蕩荡薔蔷蘿萝虜虏蝕蚀蝸蜗螞蚂蟬蝉蟻蚁蠍蝎衊蔑袞衮覓觅訝讶訟讼訣诀詛诅"
    "詠咏詭诡誡诫誣诬誦诵諧谐謂谓謬谬譏讥譚谭譴谴讒谗貞贞貫贯貯贮貶贬賂赂賈贾賜赐賤贱賭赌蹤踪軀躯輟辍輻辐"
    "轄辖轍辙迴回邏逻酈郦釐厘鈉钠鈦钛鈾铀鉀钾鉗钳銬铐鋁铝鋅锌鋰锂鋸锯錐锥錘锤錨锚錳锰鍍镀鎂镁鏟铲鑲镶鑼锣"
    "鑿凿閥阀閩闽闖闯闡阐闢辟陣阵隴陇雛雏靂雳頰颊頹颓顫颤飆飙餡馅馮冯馳驰馴驯駭骇駿骏驕骄鬱郁魷鱿鯽鲫鰻鳗"
    "鱗鳞鴿鸽鵑鹃鸚鹦齋斋気气図图広广売卖読读駅驿円圆発发対对変变応应楽乐薬药戦战単单県县実实覚觉観观関关"
    "帰归経经軽轻験验検检険险権权済济沢泽択择訳译釈释従从縦纵渋涩焼烧証证乗乘浄净剰剩畳叠譲让醸酿粋粹酔醉"
    "穂穗髄髓瀬濑斉齐摂摄専专銭钱総总捜搜聡聪荘庄騒骚増增蔵藏臓脏続续帯带滝泷団团弾弹遅迟鋳铸庁厅聴听勅敕"
    "逓递鉄铁転转伝传闘斗徳德縄绳弐贰悩恼脳脑覇霸廃废拝拜髪发抜拔仏佛払拂辺边豊丰満满黙默揺摇様样謡谣頼赖"
    "覧览竜龙両两猟猎緑绿塁垒涙泪隷隶霊灵齢龄暦历歴历労劳録录壱壹亜亚悪恶圧压囲围隠隐栄荣営营塩盐縁缘艶艳"
    "桜樱穏稳仮假価价絵绘拡扩殻壳勧劝寛宽陥陷巻卷歓欢亀龟偽伪戯戏犠牺拠据挙举暁晓駆驱勲勋恵惠掲揭渓溪継继"
    "蛍萤撃击顕显厳严効效鉱矿黒黑砕碎斎斋剤剂雑杂桟栈賛赞歯齿児儿舎舍収收処处奨奖壌壤嬢娘"
)


def normalize_text(text: str) -> str:
    """The text as a reader sees it, without case and width, with digits of one kind."""
    if text.isascii():
        return text.lower()
    plain = unicodedata.normalize("NFKC", text).lower()
    plain = _INVISIBLE_PATTERN.sub("", plain)
    return unicodedata.normalize("NFC", _DIGIT_PATTERN.sub(_ascii_digit, plain))


def spelling_forms(word: str) -> list[str]:
    """The other spellings of a normalized word; the plainest first, never itself.

    Where a keyboard has no umlaut, `ue` stands for `ü`, or `u` does.
    """
    forms = [fold_script(word)]
    if not _DIGRAPHS.keys().isdisjoint(word):
        forms.append(fold_script(word.translate(_tables().digraphs)))
    if _DIGRAPH_PATTERN.search(word):
        forms.append(_DIGRAPH_PATTERN.sub(lambda match: match[1] or "", forms[0]))
    return [form for form in dict.fromkeys(forms) if form != word]


def fold_script(word: str) -> str:
    """A normalized word in the plainest letters of its script."""
    if word.isascii():
        return word
    tables = _tables()
    plain = unicodedata.normalize("NFD", word.translate(tables.letters))
    plain = unicodedata.normalize("NFC", _MARK_PATTERN.sub("", plain))
    # An accent may have kept a letter from being met before.
    plain = plain.translate(tables.letters)
    return _NASAL_PATTERN.sub("\u0902", plain)


def syllables(run: str) -> list[str]:
    """A run of a script without spaces, each consonant with the vowels and marks around it."""
    return [unit for unit in _SYLLABLE_PATTERN.findall(run) if unit]


def _ascii_digit(match: re.Match[str]) -> str:
    return str(unicodedata.digit(match[0], match[0]))


class _Tables:
    """Made on first use."""

    def __init__(self) -> None:
        han = dict(zip(_HAN_PAIRS[::2], _HAN_PAIRS[1::2], strict=True))
        kana = {chr(code): chr(code - 0x60) for code in range(0x30A1, 0x30F7)}
        self.letters = str.maketrans({**_SPECIAL_LETTERS, **_ARABIC_LETTERS, **_HEBREW_FINALS, **kana, **han})
        self.digraphs = str.maketrans(_DIGRAPHS)


@cache
def _tables() -> _Tables:
    return _Tables()
