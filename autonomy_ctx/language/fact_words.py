"""Words by which the rules for facts read the parts of a sentence, in all languages, as data.

Phrases are separated by ";", single words by spaces or ";". `language/fact_cues.py` has the phrases that tell
what a whole sentence is.
"""

from __future__ import annotations

# Words that name an attribute: what is said of them is a value.
ATTRIBUTES = """
db; instance; appointment; delivery; length; width; height; line length; build; image; tag; job; task;
total; balance; budget; deadline; due date; address; version; name; port; email; e-mail; mail; phone;
phone number; number; host; hostname; server; url; domain; branch; repo; repository; region; zone;
timezone; time zone; currency; language; price; cost; limit; rate; size; quota; timeout; threshold; date;
time; start; departure; arrival; return; destination; airport; hotel; room; seat; code; pin; password;
username; user; account; id; key; token; birthday; age; weight; company; team; manager; boss; contact;
client; customer; supplier; vendor; project; database; table; schema; bucket; cluster; queue; topic;
endpoint; path; folder; directory; file; model; framework; license; target; goal; headcount; guests;
people; participants; attendees; venue; location; city; country; postcode; zip; iban; order; invoice;
contract; ticket; flight; train; gate; reference; confirmation; locker; plan; tier; discount; rent;
salary; capacity; retention; interval; ttl; ip; meeting; launch; release; event; wedding; party; demo;
review; dose; blood type; wife; husband; son; daughter; dog; cat; partner; replicas; workers; Budget;
Frist; Termin; Adresse; Version; Nummer; Telefonnummer; Preis; Limit; Datum; Abflug; Ankunft; Ziel;
Kennwort; Passwort; Konto; Geburtstag; Firma; Projekt; Datenbank; Stichtag; Rechnung; Kundennummer;
Obergrenze; Zeitzone; Sitzung; Treffen; Abgabe; Besprechung; Ort; délai; adresse; numéro; prix; limite;
échéance; nom; mot de passe; compte; anniversaire; ville; vol; rendez-vous; réunion; entreprise;
presupuesto; plazo; dirección; número; precio; límite; fecha; nombre; contraseña; cuenta; cumpleaños;
puerto; ciudad; vuelo; reunión; correo; orçamento; prazo; endereço; preço; data; nome; senha; conta;
aniversário; porta; cidade; voo; reunião; fecha límite; empresa; versión; versão; 予算; 締め切り; 締切;
住所; 名前; 電話番号; 価格; 上限; 期限; 日付; ポート; バージョン; 誕生日; 目的地; 出発; 会議; 人数;
パスワード; メール; 会社; 预算; 預算; 截止日期; 地址; 名字; 姓名; 电话; 价格; 日期; 端口; 版本; 生日;
会议; 密码; 邮箱; 公司; 账号; 出发; ميزانية; ميزانيتي; ميزانيتنا; الميزانية; الموعد; موعد; العنوان;
عنواني; الاسم; اسمي; رقم; رقمي; السعر; التاريخ; المنفذ; الإصدار; كلمة المرور; بريدي; البريد;
الموعد النهائي; الرحلة; الفندق; المدينة; الاجتماع
"""
# Between an attribute and its value.
COPULAS = """
is now; are now; is; are; was; were; will be; is set to; was set to; are set to; should be;
has changed to; changed to; moved to; has moved to; was moved to; is moved to; has been moved to;
went up to; went down to; rises to; was raised to; was changed to; was extended to; is at; stays at;
remains; equals; became; becomes; is actually; is still; gets; goes to; ist; ist jetzt; ist nun; sind;
beträgt; beträgt jetzt; beträgt nun; liegt bei; lautet; wurde auf; heißt; est; est de; est maintenant;
est maintenant de; sont; s'élève à; passe à; es; es de; son; ahora es; ahora es de; es ahora; será; é;
é de; agora é; são; passou para; は; 是; 为; 改为; 改成; 现在是; هي; هو; الآن; أصبح; أصبحت
"""
POSSESSIVES = """
my; our; the; this; your; his; her; their; its; mein; meine; meinem; unser; unsere; der; die; das; dein;
mon; ma; mes; notre; nos; le; la; les; l'; mi; mis; nuestro; nuestra; el; los; las; su; meu; minha; nosso;
nossa; o; a; os; as; 私の; 我的; 我们的
"""
OWN_POSSESSIVES = """
my; our; mein; meine; unser; unsere; mon; ma; notre; mi; nuestro; nuestra; meu; minha; nosso; nossa; 私の;
我的; 我们的
"""
# Before the value that no longer holds.
OLD_VALUE_CUES = """
instead of; rather than; not; from; statt; anstatt; nicht; au lieu de; pas; en lugar de; en vez de; no;
em vez de; ao invés de; não; 而不是; 不是; بدلا من; ليس
"""
# The headings of lists, by the kind of fact that their lines are.
HEADINGS: dict[str, str] = {
    "rule": """rules; rule; constraints; requirements; guidelines; conventions; Regeln; Vorgaben; règles;
        contraintes; reglas; requisitos; regras; ルール; 制約; 规则; 要求; القواعد""",
    "preference": """preferences; my preferences; Vorlieben; préférences; preferencias; preferências;
        好み; 偏好; التفضيلات""",
    "open": """todo; todos; to do; to-do; open items; open questions; action items; next steps;
        still open; remaining; pending; Offen; offene Punkte; à faire; pendientes; pendências; やること;
        待办; 待辦; المهام""",
    "decision": """decisions; decision; what we decided; agreed; Entscheidungen; décisions; decisiones;
        decisões; 決定事項; 决定; القرارات""",
}
# What tools are called that change something.
ACTION_VERBS = """
write create book commit send open deploy publish upload merge order pay schedule register save submit
insert cancel apply push reserve add post generate place release update confirm buy rename refund transfer
"""
# Changes in a file that is there already, of which a conversation has too many.
EDITING_VERBS = "edit patch replace"
READING_VERBS = "search list get read find view show query check fetch look describe status lookup grep cat"
# Commands that a shell tool may be asked to run.
SHELL_ACTIONS = """
git commit; git push; git tag; gh pr create; gh release create; kubectl apply; terraform apply;
npm publish; docker push; helm upgrade
"""
# Verbs and nouns that so many sentences share that they say nothing about their subject.
WEAK_WORDS = """
thanks thank thx danke dir merci gracias obrigado super great cool perfect ya esta estan está están já
estão schon bereits déjà already use using used run make made do does did done write add keep put get set
go take need want please sure always never must only now new change update instead actually also still
remind remember forget todo thing things time let it ok yes no not everything anything every all any
before after until from next week day today tomorrow yesterday morning heute gestern hoy ayer hier hoje
ontem later ask first one two number open item question waiting pending rule noch muss immer nie bitte
nicht mehr jetzt sehr alle toujours jamais plus tout siempre nunca más sempre mais hay que
"""
# Words that only hold a sentence together.
FUNCTION_WORDS = """
again another both bit can't didnt doesnt don't dont each even ever here him i'll i'm i've im it's ive lot
more most onto other really such that's thats there's too very we'll we're we've wont yet us al als auch aus
da dann dem den des dich ein eine einem einen einer er fur hab habe haben hat ich ihr im mal man mich mir mit
nach nur oder sie uns vom von war werden wie wir wird zum zur kein keine au aux avait avec avoir bien ce ces
cet cette dans elle elles en etre fait faut il ils leur lui ne nous ou par pas pour qui quoi sa se ses si sur
te tous toute tres un une vous com como con cuando del donde dos em esa ese eso este esto foi ha han hemos he
lo me muito muy na nas sem seu sin sobre sua sus tem um uma una unas unos
"""
RULING_WORDS = """
never always nothing nobody nie niemals immer nichts niemand jamais toujours rien personne nunca siempre nada
nadie jamas sempre ninguem
"""
# Past forms that no rule leads back to their verb.
IRREGULAR_FORMS = """
sent:send paid:pay bought:buy written:write wrote:write made:make told:tell got:get found:find built:build
done:do ran:run gave:give spoke:speak met:meet chose:choose chosen:choose took:take taken:take brought:bring
sold:sell shipped:ship planned:plan merged:merge fed:feed left:leave kept:keep held:hold heard:hear read:read
hung:hang drove:drive driven:drive flew:fly flown:fly spoken:speak gone:go went:go came:come given:give
taught:teach caught:catch lent:lend spent:spend dealt:deal drawn:draw drew:draw swapped:swap dropped:drop
fitted:fit booked:book picked:pick begun:begin began:begin sat:sit swept:sweep won:win worn:wear
"""
# Verbs that give an attribute a value, and what stands before the value.
SETTERS = """
set; change; update; raise; lower; increase; reduce; move; bump; extend; push; postpone; rename; switch;
ändere; setze; erhöhe; verschiebe; stelle; mets; passe; augmente; modifie; cambia; pon; sube; mueve; mude;
altere; coloque; aumente; غير; اجعل
"""
SETTER_JOINTS = "to; auf; zu; à; a; para; por; إلى"
CLAUSE_JOINTS = """
and; but; so; then; please; und; aber; bitte; et; mais; y; pero; e; mas; also; ok; okay; yes; hey; hi;
hello; well; just; oh; btw; hm; hmm; right; anyway; du; übrigens; ah; ach; bon; bueno; oye; por cierto
"""
# The first word, with the second one later in the clause, corrects what stands between them.
CORRECTING_PAIRS = (("not", "but"), ("nicht", "sondern"), ("pas", "mais"), ("no", "sino"), ("não", "mas"))
FIRST_PERSON = (
    "i we i'll we'll ich wir je nous on tenemos tengo temos tenho precisamos preciso hay 我 我们 私 علينا"
)
# Words of two languages; they are cues only beside one of these words.
COMPANIONS = {
    "no": "in on the to please for with without before after at or of more than any",
    "nie": "der die das den dem ich du wir ihr und auf mit mich mir nicht ein eine zu am im ohne bitte vor",
    "muss": "der die das den dem du wir ihr und auf mit nicht ein eine zu am im ohne bitte vor alle jede",
    "todo": "the : to for in on from my our list still",
    "pending": "the is are a on for review approval to from",
}
OPTION_WORDS = "option variante plan opción opção choice number nummer alternative"
OPTION_FILLERS = """
please it is go with take then ok okay yes let's i'll the one we'll bitte nehmen wir ich nehme prends s'il
te plaît por favor vamos
"""
UNITS = """
euro euros eur usd dollar dollars pounds percent people persons nights days hours minutes seconds gb mb ms
kg km
"""
# What an assistant may say the value of: it arranged it.
REPORTED_ATTRIBUTES = """
appointment meeting reservation booking delivery departure arrival total price confirmation Termin
rendez-vous cita
"""
APPROXIMATIONS = (
    "about roughly around approximately nearly almost circa etwa rund ungefahr environ unos unas cerca"
)
SUBJECT_PREPOSITIONS = "for of in on at from with fur von im pour de du dans en para do da del no na"
PRONOUNS = """
i you he she it they we there what which who ich du er sie es wir je tu il elle on nous yo ella eu ele ela
"""
# Endings of verbs in the past.
PAST_ENDINGS = "ed ado ido ada ida"
PURPOSES = "for everywhere fur pour para"
# Verbs of what people choose to do: "I never fly at night" is a wish, "I never remember it" is none.
CHOICE_VERBS = """
eat drink fly take book use stay sit order buy pay work travel sleep drive read write sign deploy push
merge commit answer go wear shop rent choose share send call meet run start cook smoke ship release test
review do
"""
NUMBER_WORDS = """
one two three four five six seven eight nine ten eleven twelve zwei drei vier funf sechs sieben acht neun
zehn elf zwolf deux trois quatre cinq sept huit neuf dix dos tres cuatro cinco seis siete ocho nueve diez
dois duas quatro sete oito nove dez single seul
"""
# Units of so many things that they alone do not say what is measured.
COMMON_UNITS = """
euro euros eur usd dollar dollars pounds yen percent people persons nights days day weeks week months
month years year hours hour minutes minute min seconds second ms gb mb kg km pm am uhr tage tag wochen
monate stunden minuten sekunden jours jour semaines mois heures minutos dias dia semanas meses horas times
mal fois veces
"""
# Words for one thing: a value of one of them replaces a value of another.
CONCEPTS = (
    "departure depart fly flight flights leave outbound abflug abreise depart partons part salida partida",
    "budget spend presupuesto orcamento",
    "price cost quote offer pay kosten kostet preis angebot prix cout precio cuesta coste tarifa preco custa",
    "mail email address reach contact",
    "deadline due submission abgabe frist echeance plazo prazo",
    "colour color accent",
    "duration run laufzeit duree duracion",
)
# "It is 33 now": what an assistant says of the present.
NOW_WORDS = "now jetzt nun maintenant ahora agora 今 现在 الآن"
POLITE_WORDS = "please pls bitte stp svp porfa favor お願い 请 رجاء"
# Before what people will do, and what they will only feel.
FUTURE_WORDS = "we'll will gonna going wird werden sera seront ira iront seran iran vai vao"
# Verbs of people that tell how things are, not what they will do.
STATE_VERBS = """
have had need needed must should could can can't are were was did didn't want wanted think thought know knew
use got got might may would never always still also just only really don't dont not and see saw say said find
found like love hate hope wonder wait expect keep forget mean feel hear get all two three both haben hatten
mussen mussten sollen sollten konnen konnten wollen wollten durfen waren wurden werden brauchen warten hoffen
wissen denken glauben finden mochten bleiben einen keinen seinen ihren meinen unseren diesen allen neuen alten
guten avons devons sommes pouvons voulons attendons savons pensons est a etait avait doit peut veut va sait
attend verra aura tenemos hemos estamos somos queremos podemos debemos necesitamos esperamos sabemos creemos
habiamos eramos teniamos estabamos temos estamos queremos podemos devemos precisamos sabemos achamos supremos
ultimos proximos minimos maximos mismos
"""
PERFECT_NEGATIONS = """
haven't havent hasn't hasnt hadn't didn't didnt isn't isnt aren't arent wasn't weren't not nobody nicht
keiner niemand pas nao ningun nadie
"""
NEGATIONS = """
not no nobody none haven't hasn't isn't nicht kein keine keinen niemand pas personne nadie ningun nao ninguem
"""
UNIVERSALS = """
all every each everything alle alles jede jeder jedes tous toutes chaque todos todas cada todo tudo
"""
FEELING_VERBS = "hate love like see think know never say kill laugh cry enjoy need wonder it"
RELATIVE_WORDS = "which who whose where que qui quel ou wo wer qual quem onde donde como cual"
POINTING_WORDS = """
it that this they he she these those das dies es sie er ca cela ce c il elle eso esto isso isto lo
"""
# A sentence that begins with one of these does not say what it is about.
BARE_VERBS = "needs has must should muss sollte doit devrait faut debe tiene deveria precisa deve"
